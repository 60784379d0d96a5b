package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/cli"
)

func resultsCommand(env cli.Environment) *cobra.Command {
	var t target
	var f files
	var asJSON bool
	c := &cobra.Command{
		Use:   "results BATCH",
		Short: "Write the answers of a batch to files, as far as they are there",
		Long: `Results writes what is there of the answers, at any time and as often as you like, in the OpenAI Batch output format and in the order
of the lines: good ones to --out, others to --errors. They are read one by one; a file is replaced when the new one is whole.

Of a batch that was cancelled, each request without an answer has a line in --errors, with the code batch_cancelled. Requests whose lines were never
enqueued because the enqueuer died are not known; how many is said on standard error.

The exit code is 0 also if requests failed: --json says how many.`,
		Example: `  enqueue results 3f2a --out answers.jsonl --errors errors.jsonl
  enqueue results 3f2a --out - | jq .response.body.usage`,
		Args: cli.Named("one BATCH, as `enqueue status` lists them"),
	}
	t.configFlag(c)
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print how many lines were written as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !f.named() {
			return &cli.UsageError{Err: errors.New("name a file with --out, with --errors, or both")}
		}
		if err := f.checkFiles(asJSON, ""); err != nil {
			return err
		}
		s, b, err := t.openBatch(c.Context(), env, args[0])
		if err != nil {
			return err
		}
		defer s.close(c.Context())
		w, err := f.writeCounted(c.Context(), s.batches, b.ID, env)
		if err != nil {
			return err
		}
		w.Missing = max(0, b.Requests-w.Done-w.Failed-w.Cancelled)
		if w.Missing > 0 && b.State == batches.StateCancelled {
			t.warn(env, "%s requests of the cancelled batch have no line: they still run, or their lines were never enqueued, and nothing is known of them", count(w.Missing))
		}
		if asJSON {
			return json.NewEncoder(env.Out).Encode(w)
		}
		out := env.Out
		if f.standard() {
			out = env.Err
		}
		_, err = fmt.Fprintf(out, "batch %s: %s answers, %s failed, %s cancelled, %s not there yet, of %s requests\n",
			b.ID, count(w.Done), count(w.Failed), count(w.Cancelled), count(w.Missing), count(b.Requests))
		return err
	}
	return c
}
