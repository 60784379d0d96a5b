package enqueue

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/shell"
)

// keepBatchMin is the least of it.
const keepBatchMin = time.Minute

// keptBatch says so on the command line.
const keptBatch = ", at least 1m: one that ends while its file is enqueued again must still be found"

// batchJob is one run of `headway batch`.
type batchJob struct {
	target
	files

	skip   bool
	most   string // failures, as on the command line
	budget float64
	dry    bool
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
	head     []byte // its first bytes
	result   result
	plan     *forecast // counts the good lines; nil without --dry-run
	bill     *bill     // counts the good lines

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
body), in order. "-" reads standard input. The answers are stored for 30 days; "headway results" writes them.

The whole file is checked first. Where a line is broken, is there twice, asks for more than the limit can ever serve, or
for a host or a secret that headway.yaml does not list (http.allow_hosts, http.secrets; where it lists no hosts, that is
only warned of, as workers may have another file), all such lines are named and nothing is enqueued; with --skip-invalid
the others are enqueued, and the exit code is 1.

The same file for the same limits and model is the same batch, under the same name: enqueued again, it goes on where it
was, and nothing is sent twice. So whatever was interrupted, this command or the workers, the same command once more is
right. Line ends do not matter. --new runs all requests once more, as a new batch; after an interruption leave it out,
because the newest batch of a file goes on.

With --dry-run the file is checked in the same way, with the same exit codes, and nothing is enqueued. The command
prints the faulty lines, the estimated tokens of each meter beside the limit, the scarce meter, the duration (as
"headway simulate --batch" does), and the cost at the prices of headway.yaml. The limits are the ones of the fleet, with
the rates that are set, if REDIS_URL or "headway dev" names one; else the ones of headway.yaml. It needs no services.

With --max-failures the batch stops when that number of requests has failed for good, as with a wrong model: what has
not started is cancelled, calls that run come to their end, and the exit code is 1. Enqueue the file again to go on; the
failures so far do not count then.

With --budget nothing is enqueued if the requests may cost more, at the prices of headway.yaml: each once, with an
answer as long as it may be.

With --wait the command shows the progress until every request has ended, and writes the answers in the OpenAI Batch
output format: good ones to --out, others to --errors. Either of them implies --wait; "-" is standard output.`,
		Example: `  headway batch examples/godoc.jsonl --limit openai
  headway batch in.jsonl --out out.jsonl --errors errors.jsonl --limit openai
  headway batch in.jsonl --limit openai --dry-run
  headway batch in.jsonl --limit openai --max-failures 5% --budget 20 --wait
  headway batch requests.jsonl --limit openai:tenant-7
  headway batch requests.jsonl --limit tenants:acme --limit openai
  zcat huge.jsonl.gz | headway batch - --limit openai --skip-invalid --json`,
		Args: cli.Named("one FILE, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error { return j.run(c.Context(), args[0]) },
	}
	j.target.flags(c, requests.Kept, keptBatch)
	j.files.flags(c)
	c.Flags().StringVar(&j.model, "model", "", "the model of all requests, instead of what each line says")
	c.Flags().BoolVar(&j.wait, "wait", false, "wait until every request has ended, and show the progress")
	c.Flags().BoolVar(&j.anew, "new", false, "run a file that was run before once more, as a new batch")
	c.Flags().BoolVar(&j.dry, "dry-run", false,
		"enqueue nothing: print what the requests take, how long that lasts, and what it costs")
	c.Flags().StringVar(&j.most, "max-failures", "",
		"stop the batch when this `NUMBER` of requests has failed for good, or a share such as 5%")
	c.Flags().Float64Var(&j.budget, "budget", 0,
		"enqueue nothing if the requests may cost more than this `AMOUNT`, at the prices of headway.yaml")
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
	_, bad := failuresMost(j.most, 1)
	if err = errors.Join(j.checkKeep(), j.checkFiles(j.asJSON, name, j.file), bad, j.checkBudget()); err != nil {
		return err
	}
	if j.from, err = j.load(ctx, j.env, j.model); err != nil {
		return err
	}
	j.bill = newBill(j.from.config.Prices)
	if j.input, err = open(ctx, name, j.env.In); err != nil {
		return err
	}
	defer func() { _ = j.input.file.Close() }()
	if j.name = name; name == "-" {
		j.name = standardInput
	}
	began := time.Now()
	j.result = result{Event: "enqueued"}
	if j.from.warnOfQueue(j.env); j.dry {
		return j.rehearse(ctx, cmp.Or(options.At, began))
	}
	if err = j.inspect(); err != nil {
		return err
	}
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
		_, failed := j.leave(ctx, err)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, j.leftOut()) // whatever became of the others
}

// leftOut is the error that names faulty lines which were skipped; nil if there are none.
func (j *batchJob) leftOut() error {
	if j.result.Faulty == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s left out:\n%s", j.name, cli.Plural(j.result.Faulty, "line was", "lines were"),
		j.result.faults())
}

// inspect reads the whole file. Where lines are at fault, and they are not to be skipped, the error names them.
func (j *batchJob) inspect() error {
	if err := j.read(); err != nil {
		return err
	}
	if faulty := j.refused(); faulty != nil {
		if j.asJSON {
			if err := j.print(); err != nil {
				return err
			}
		}
		return faulty
	}
	j.input.rewind()
	return j.within()
}

// read checks all lines, and hashes them.
func (j *batchJob) read() error {
	hash := newContent()
	if err := j.check(io.TeeReader(j.input, hash)); err != nil {
		return err
	}
	j.bill.total()
	j.hash = hash.sum()
	return nil
}

// refused is the error that names faulty lines which are not to be skipped; nil if there are none.
func (j *batchJob) refused() error {
	if j.result.Faulty == 0 || j.skip {
		return nil
	}
	advice := " (--skip-invalid enqueues the others)"
	if j.result.Requests+j.tooLarge == 0 {
		if err := j.misshapen(); err != nil {
			return err
		}
		advice = " (not one is a request in the OpenAI Batch format: is it the right file?)"
	}
	return cli.Usage("%s: %d of %d lines are faulty; nothing was enqueued%s:\n%s", j.name, j.result.Faulty,
		j.result.Requests+j.result.Faulty, advice, j.result.faults())
}

// misshapen is the error of a file without a request whose beginning says what it is; nil if it does not.
func (j *batchJob) misshapen() error {
	what, advice := batch.Shape(j.head)
	if what == "" {
		return nil
	}
	if j.name != standardInput {
		advice = strings.ReplaceAll(advice, "FILE", shell.Word(j.name))
	}
	return cli.Usage("%s is %s, and a batch has one JSON object a line; nothing was enqueued: %s", j.name, what, advice)
}

// headBytes is how many bytes say what a file is.
const headBytes = 512

// check counts the good lines and notes the faulty ones.
func (j *batchJob) check(file io.Reader) error {
	r, anywhere := &j.result, 0
	lines := bufio.NewReaderSize(file, headBytes)
	j.head, _ = lines.Peek(headBytes) // the error comes again with the first line
	j.head = slices.Clone(j.head)
	err := j.from.each(lines, false, func(task request) error {
		r.Requests++
		j.lines = task.line.Number
		if j.plan != nil {
			j.plan.add(task)
		}
		if j.dry || j.budget != 0 {
			j.bill.add(task)
		}
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
		err = &cli.UsageError{Err: fmt.Errorf("%s: %w; nothing was enqueued", j.name, batch.ErrEmpty)}
	case j.skip:
		if err = j.misshapen(); err == nil {
			err = cli.Usage("%s: not one line is a request, nothing was enqueued:\n%s", j.name, r.faults())
		}
	}
	return err
}

// identify returns the batch of the file as it is stored. With --new it is one that does not exist, otherwise the
// newest one. A batch that does not exist has an ID and nothing else.
func (j *batchJob) identify(ctx context.Context) (before batches.Batch, err error) {
	for n := 1; ; n++ {
		id, err := j.from.name(j.hash, n)
		if err != nil {
			return batches.Batch{}, err
		}
		next, err := j.s.Batches.Batch(ctx, id)
		if errors.Is(err, batches.ErrUnknownBatch) {
			if j.anew || before.ID == "" {
				before = batches.Batch{ID: id}
			}
			return before, nil
		}
		if err != nil {
			return batches.Batch{}, err
		}
		before = next
	}
}

// record finds the batch of the file, or makes it. One that was cancelled goes on.
func (j *batchJob) record(ctx context.Context) error {
	before, err := j.identify(ctx)
	if err != nil {
		return err
	}
	id := before.ID
	most, err := failuresMost(j.most, j.result.Requests)
	if err != nil {
		return err
	}
	j.batch, j.existed, err = j.s.Batches.Open(ctx, batches.Batch{
		ID: id, Name: j.name, Hash: j.hash, Lines: j.lines, Requests: j.result.Requests, Limit: j.from.String(),
		Model: j.model, Queue: j.queue, Retries: j.retries, FailuresMost: most,
	})
	if err != nil {
		return err
	}
	j.result.Batch, j.result.MaxFailures = id, most
	if b := &j.batch; b.Queue != j.queue { // there the IDs of its tasks are unknown, and all would be sent twice
		return cli.Usage("batch %s is in queue %q: send it with --queue %s", id, b.Queue, b.Queue)
	}
	if j.batch.State != batches.StateCancelled {
		return nil
	}
	if j.batch.StoppedBy != "" {
		fmt.Fprintf(j.env.Err, "headway: %s, and goes on now: the failures so far do not count; `%s` sends them again\n",
			stopped(before), shell.Command("headway retry", id, "--failed"))
	}
	if err = j.s.Batches.Resume(ctx, id); err != nil {
		return err
	}
	j.batch.State = batches.StateOpen
	return pause.For(ctx, settleDown)
}
