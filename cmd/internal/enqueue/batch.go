package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/pause"
)

// keepBatch is how long Redis keeps the finished tasks of a batch, without their answers: long enough that one which
// ends while the batch is enqueued again is not taken for one that was never sent.
const keepBatch = time.Hour

// keepBatchMin is the least of it.
const keepBatchMin = time.Minute

// keptBatch says so on the command line.
const keptBatch = ", at least 1m: one that ends while its file is enqueued again must still be found"

// batchJob is one run of `headway batch`.
type batchJob struct {
	target
	files

	skip   bool
	wait   bool
	anew   bool
	asJSON bool
	env    cli.Environment

	from     *source
	name     string // of the file, for people
	input    *input
	hash     string // of its content
	lines    int    // the number of the last good one
	tooLarge int    // requests above a capacity
	result   result

	s       services
	batch   batches.Batch
	existed bool // the batch was sent before, at least a part of it
}

func batchCommand(env cli.Environment) *cobra.Command {
	j := &batchJob{env: env}
	c := &cobra.Command{
		Use:   "batch FILE|-",
		Short: "Enqueue a file of requests in the OpenAI Batch format",
		Long: `Batch enqueues every line of a JSONL file in the OpenAI Batch input format (custom_id, method, url,
body), in order. "-" reads standard input. The answers are kept in MongoDB for 30 days; "headway results" writes them.

The whole file is checked first. Where a line is broken, is there twice, asks for more than the limit can ever serve, or
for a host or a secret that headway.yaml does not list (http.allow_hosts, http.secrets; where it lists no hosts, that is
only warned of, as workers may have another file), all such lines are named and nothing is enqueued; with --skip-invalid
the others are enqueued, and the exit code is 1.

The same file for the same limits and model is the same batch, under the same name: enqueued again, it goes on where it
was, and nothing is sent twice. So whatever was interrupted, this command or the workers, the same command once more is
right. Line ends do not matter. --new runs all requests once more, as a new batch; after an interruption leave it out,
because the newest batch of a file goes on.

With --wait the command shows the progress until every request has ended, and writes the answers in the OpenAI Batch
output format: good ones to --out, others to --errors. Either of them implies --wait; "-" is standard output.`,
		Example: `  headway batch examples/godoc.jsonl --limit openai
  headway batch in.jsonl --out out.jsonl --errors errors.jsonl --limit openai
  headway batch requests.jsonl --limit openai:tenant-7
  headway batch requests.jsonl --limit tenants:acme --limit openai
  zcat huge.jsonl.gz | headway batch - --limit openai --skip-invalid --json`,
		Args: cli.Named("one FILE, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error { return j.run(c.Context(), args[0]) },
	}
	j.target.flags(c, keepBatch, keptBatch)
	j.files.flags(c)
	c.Flags().StringVar(&j.model, "model", "", "the model of all requests, instead of what each line says")
	c.Flags().BoolVar(&j.wait, "wait", false, "wait until every request has ended, and show the progress")
	c.Flags().BoolVar(&j.anew, "new", false, "run a file that was run before once more, as a new batch")
	c.Flags().BoolVar(&j.skip, "skip-invalid", false, "enqueue the good lines where others are faulty")
	c.Flags().BoolVar(&j.asJSON, "json", false,
		"print the result as JSON, with --wait also the progress, one object a line")
	return c
}

func (j *batchJob) run(ctx context.Context, name string) error {
	options, err := j.options(ctx, j.env)
	if err != nil {
		return err
	}
	if err = errors.Join(j.checkKeep(), j.checkFiles(j.asJSON, name, j.file)); err != nil {
		return err
	}
	if j.from, err = j.load(j.model); err != nil {
		return err
	}
	if j.input, err = open(ctx, name, j.env.In); err != nil {
		return err
	}
	defer func() { _ = j.input.file.Close() }()
	if j.name = name; name == "-" {
		j.name = standardInput
	}
	began := time.Now()
	j.result = result{Event: "enqueued"}
	if err = j.inspect(); err != nil {
		return err
	}
	j.from.warnOfQueue(j.env)
	if j.s, err = openBatches(ctx, j.env, j.from.config); err != nil {
		return err
	}
	defer j.s.Close(ctx)
	if err = j.record(ctx); err != nil {
		return err
	}
	err = j.send(ctx, options)
	j.result.Seconds = time.Since(began).Seconds()
	if printErr := j.print(); printErr != nil {
		return printErr
	}
	switch {
	case err == nil && (j.wait || j.named()):
		err = j.await(ctx)
	case errors.Is(err, batches.ErrCancelled), errors.Is(err, context.Canceled):
		err = errors.Join(err, j.leave(ctx, err))
	}
	if j.result.Faulty > 0 { // they were skipped, whatever became of the others
		err = errors.Join(err, fmt.Errorf("%s: %d lines were left out:\n%s", j.name, j.result.Faulty, j.result.faults()))
	}
	return err
}

// inspect reads the whole file. Where lines are at fault, and they are not to be skipped, the error names them.
func (j *batchJob) inspect() error {
	hash := newContent()
	if err := j.check(io.TeeReader(j.input, hash)); err != nil {
		return err
	}
	j.hash = hash.sum()
	if j.result.Faulty > 0 && !j.skip {
		if j.asJSON {
			if err := j.print(); err != nil {
				return err
			}
		}
		advice := " (--skip-invalid enqueues the others)"
		if j.result.Requests+j.tooLarge == 0 {
			advice = " (not one is a request in the OpenAI Batch format: is it the right file?)"
		}
		return cli.Usage("%s: %d of %d lines are faulty; nothing was enqueued%s:\n%s", j.name, j.result.Faulty,
			j.result.Requests+j.result.Faulty, advice, j.result.faults())
	}
	j.input.rewind()
	return nil
}

// check counts the good lines and notes the faulty ones.
func (j *batchJob) check(file io.Reader) error {
	r, anywhere := &j.result, 0
	err := j.from.each(file, false, func(task request) error {
		r.Requests++
		j.lines = task.line.Number
		if task.line.HTTP() && len(j.from.config.HTTP.AllowHosts) == 0 {
			anywhere++
		}
		return nil
	}, func(fault error) {
		r.Faulty++
		if errors.Is(fault, errLarge) {
			j.tooLarge++
		}
		if r.Faulty <= faultsListed {
			r.Faults = append(r.Faults, fault.Error())
		}
	})
	if anywhere > 0 {
		cli.Warn(j.env, "%d requests have an absolute url, and %s lists no hosts (http.allow_hosts): only a worker with "+
			"a file that lists theirs makes them, others refuse them", anywhere, j.file)
	}
	switch {
	case err != nil || r.Requests > 0:
	case r.Faulty == 0:
		err = &cli.UsageError{Err: batch.ErrEmpty}
	case j.skip:
		err = cli.Usage("%s: not one line is a request, nothing was enqueued:\n%s", j.name, r.faults())
	}
	return err
}

// identify returns the ID of the batch of the file. With --new it is one that does not exist, otherwise the newest one.
func (j *batchJob) identify(ctx context.Context) (id string, err error) {
	for n := 1; ; n++ {
		next, err := j.from.name(j.hash, n)
		if err != nil {
			return "", err
		}
		if _, err = j.s.Batches.Batch(ctx, next); errors.Is(err, batches.ErrUnknownBatch) {
			if j.anew || id == "" {
				id = next
			}
			return id, nil
		}
		if err != nil {
			return "", err
		}
		id = next
	}
}

// record finds the batch of the file, or makes it. One that was cancelled goes on.
func (j *batchJob) record(ctx context.Context) error {
	id, err := j.identify(ctx)
	if err != nil {
		return err
	}
	j.batch, j.existed, err = j.s.Batches.Open(ctx, batches.Batch{
		ID: id, Name: j.name, Hash: j.hash, Lines: j.lines, Requests: j.result.Requests, Limit: j.from.String(),
		Model: j.model, Queue: j.queue, Retries: j.retries,
	})
	if err != nil {
		return err
	}
	j.result.Batch = id
	if b := &j.batch; b.Queue != j.queue { // there the IDs of its tasks are unknown, and all would be sent twice
		return cli.Usage("batch %s is in queue %q: send it with --queue %s", id, b.Queue, b.Queue)
	}
	if j.batch.State != batches.StateCancelled {
		return nil
	}
	if err = j.s.Batches.Resume(ctx, id); err != nil {
		return err
	}
	j.batch.State = batches.StateOpen
	return pause.For(ctx, settleDown)
}
