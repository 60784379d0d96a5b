package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// chunk is the number of requests that are enqueued together.
const chunk = 500

// errFaulty is the end of a batch of which some lines were left out.
var errFaulty = errors.New("lines were left out")

// result is what `enqueue batch --json` prints.
type result struct {
	Enqueued int      `json:"enqueued"`
	Faulty   int      `json:"faulty"`
	Faults   []string `json:"faults,omitempty"` // the first of them
	Seconds  float64  `json:"seconds"`
}

type batchJob struct {
	target
	skip   bool
	asJSON bool
	env    cli.Environment
}

func batchCommand(env cli.Environment) *cobra.Command {
	j := &batchJob{env: env}
	c := &cobra.Command{
		Use:   "batch FILE|-",
		Short: "Enqueue a file of requests in the OpenAI Batch format",
		Long: `Batch enqueues every line of a JSONL file in the OpenAI Batch input format (custom_id, method, url, body), in order.
"-" reads standard input.

The whole file is checked first. Where a line is broken, is there twice, or asks for more than the limit can ever
serve, all such lines are named and nothing is enqueued; with --skip-invalid the others are enqueued, and the exit
code is 1.

With several limits a request starts when all of them let it; the narrowest stands first, the provider's last.`,
		Example: `  enqueue batch examples/godoc.jsonl --limit openai
  enqueue batch requests.jsonl --limit openai:tenant-7 --reserve
  enqueue batch requests.jsonl --limit tenants:acme --limit openai
  zcat huge.jsonl.gz | enqueue batch - --limit openai --skip-invalid --json`,
		Args: cli.Args(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("wants one FILE, or - for standard input; got %d", len(args))
			}
			return nil
		}),
		RunE: func(c *cobra.Command, args []string) error { return j.run(c.Context(), args[0]) },
	}
	j.flags(c)
	c.Flags().BoolVar(&j.skip, "skip-invalid", false, "enqueue the good lines where others are faulty")
	c.Flags().BoolVar(&j.asJSON, "json", false, "print the result as JSON")
	return c
}

func (j *batchJob) run(ctx context.Context, name string) error {
	options, err := j.options()
	if err != nil {
		return err
	}
	limits, from, err := j.load()
	if err != nil {
		return err
	}
	file, closeFile, err := open(name, j.env.In)
	if err != nil {
		return err
	}
	defer func() { _ = closeFile() }()
	began := time.Now()
	r := result{}
	total, err := j.check(file, from, &r)
	if err != nil {
		return err
	}
	if r.Faulty > 0 && !j.skip {
		if j.asJSON {
			if err = j.print(r, total, name, from); err != nil {
				return err
			}
		}
		return &cli.UsageError{Err: fmt.Errorf("%s: %d of %d lines are faulty; nothing was enqueued (--skip-invalid enqueues the others):\n%s", displayName(name), r.Faulty, total+r.Faulty, indented(r))}
	}
	if err = rewind(file); err != nil {
		return err
	}
	s, closeAll, err := j.open(ctx, j.env, limits)
	if err != nil {
		return err
	}
	defer func() { _ = closeAll() }()
	r.Enqueued, err = j.send(ctx, s, file, from, total, options)
	r.Seconds = time.Since(began).Seconds()
	if printErr := j.print(r, total, name, from); printErr != nil {
		return printErr
	}
	if err == nil && r.Faulty > 0 {
		return fmt.Errorf("%s: %d %w:\n%s", displayName(name), r.Faulty, errFaulty, indented(r))
	}
	return err
}

// check reads the whole file, counts the good lines and notes the faulty ones.
func (j *batchJob) check(file io.Reader, from *source, r *result) (int, error) {
	good := 0
	over := map[string]int{}
	err := j.each(file, from, func(task llm.Chat) error {
		good++
		for _, name := range from.over(task) {
			over[name]++
		}
		return nil
	}, func(fault error) {
		r.Faulty++
		if r.Faulty <= faultsListed {
			r.Faults = append(r.Faults, fault.Error())
		}
	})
	for _, name := range slices.Sorted(maps.Keys(over)) {
		j.warn(j.env, "%d requests reserve more than the capacity of limit %q: each waits for a full bucket, and everybody else until it is paid back", over[name], name)
	}
	if err == nil && good == 0 && r.Faulty == 0 {
		err = &cli.UsageError{Err: batch.ErrEmpty}
	}
	return good, err
}

// send enqueues the good lines, chunk by chunk, and returns how many.
func (j *batchJob) send(ctx context.Context, s *scheduler.Scheduler, file io.Reader, from *source, total int, options []scheduler.Option) (int, error) {
	bar := newProgress(j.env.Err, total)
	defer bar.close()
	sent := 0
	var gathered []tasks.Args
	flush := func() error {
		if len(gathered) == 0 {
			return nil
		}
		infos, err := s.EnqueueMany(ctx, gathered, options...)
		for _, info := range infos {
			if info != nil {
				sent++
			}
		}
		bar.set(sent)
		gathered = gathered[:0]
		return err
	}
	err := j.each(file, from, func(args llm.Chat) error {
		gathered = append(gathered, args)
		if len(gathered) < chunk {
			return nil
		}
		return flush()
	}, func(error) {})
	if err == nil {
		err = flush()
	}
	if err != nil {
		err = fmt.Errorf("%d of %d requests were enqueued before: %w", sent, total, err)
	}
	return sent, err
}

// each calls good for every task of the file, and faulty for every line that is none.
func (j *batchJob) each(file io.Reader, from *source, good func(llm.Chat) error, faulty func(error)) error {
	reader := batch.NewReader(file, batch.Config{})
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if fault := (*batch.LineError)(nil); errors.As(err, &fault) {
			faulty(fault)
			continue
		}
		if err != nil {
			return err
		}
		task, err := from.chat(line.Body)
		if err != nil {
			faulty(&batch.LineError{Line: line.Number, Field: "body", Err: err})
			continue
		}
		task.CustomID = line.CustomID
		if err := good(task); err != nil {
			return err
		}
	}
}

func (j *batchJob) print(r result, total int, name string, from *source) error {
	if j.asJSON {
		return json.NewEncoder(j.env.Out).Encode(r)
	}
	_, err := fmt.Fprintf(j.env.Out, "%d of %d requests of %s are in queue %q, for limit %s\n", r.Enqueued, total, displayName(name), j.queue, from)
	return err
}

func displayName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}
