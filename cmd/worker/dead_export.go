package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/cli"
)

func deadExportCommand(env cli.Environment) *cobra.Command {
	var f deadFilter
	var out string
	var everything bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the dead tasks as JSON lines, with their payloads",
		Long: `Export writes one JSON object a line: ID, queue, type, when and why it died, the errors of its attempts, options, headers (the charges are one of them)
and payload; a payload that is no JSON is in payload_base64. It takes as much memory for a million tasks as for one.

A file appears under its name when it is complete.`,
		Example: `  worker dead export --out dead.jsonl
  worker dead export --type mail | jq -r .payload.to`,
		Args: cli.Args(cobra.NoArgs),
	}
	f.flags(c)
	c.Flags().StringVar(&out, "out", "-", "write to this `file`; - is the standard output")
	c.Flags().BoolVar(&everything, "all-states", false, "export those as well that are not dead (any more)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		chosen, err := f.filter()
		if err != nil {
			return err
		}
		if everything {
			chosen.States = deadtasks.EveryState()
		}
		store, done, err := openDead(c.Context(), env)
		if err != nil {
			return err
		}
		defer done()
		if out == "-" {
			_, err = exportDead(c.Context(), cli.Data(env.Out), store, chosen, func(int) {})
			return err
		}
		return exportDeadTo(c.Context(), env, out, store, chosen)
	}
	return c
}

// exportDeadTo writes a file.
func exportDeadTo(ctx context.Context, env cli.Environment, name string, store *deadtasks.Store, f deadtasks.Filter) error {
	total, err := store.Count(ctx, f)
	if err != nil {
		return err
	}
	file, err := cli.CreateFile(name)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	bar := cli.NewProgress(env.Err, "exported", total)
	n, err := exportDead(ctx, file, store, f, bar.Set)
	bar.Close()
	if err != nil {
		return errors.Join(err, file.Drop())
	}
	if err = file.Keep(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Err, "%s in %s\n", counted(n, "task"), name)
	return err
}

func exportDead(ctx context.Context, w io.Writer, store *deadtasks.Store, f deadtasks.Filter, told func(n int)) (n int, err error) {
	buffer := bufio.NewWriter(w)
	out := encoderTo(buffer)
	for t, err := range store.Whole(ctx, f) {
		if err == nil {
			err = out.Encode(wholeRowOf(t))
		}
		if err != nil {
			return n, errors.Join(err, buffer.Flush())
		}
		n++
		told(n)
	}
	return n, buffer.Flush()
}
