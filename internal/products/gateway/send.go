package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

const (
	// faultsMost is how many faulty lines the errors of a batch name. linesMost is how many requests it may have.
	faultsMost = 100
	linesMost  = 1_000_000
)

// jobLine is a request of a batch.
type jobLine struct{ batch.Line }

// codeOf is OpenAI's code for the fault of a line, where it has one.
func codeOf(err error) string {
	for fault, code := range map[error]string{
		batch.ErrJSON: "invalid_json_line", batch.ErrUTF8: "invalid_json_line", batch.ErrTruncated: "invalid_json_line",
		batch.ErrDuplicateID: "duplicate_custom_id", batch.ErrMethod: "invalid_method", batch.ErrUnknownURL: "invalid_url",
		batch.ErrMissingField: "missing_required_parameter", batch.ErrTooLong: "line_too_long",
	} {
		if errors.Is(err, fault) {
			return code
		}
	}
	return "invalid_request"
}

// each calls good for each request of the file of a batch, and faulty for each line that is none.
func (b *batching) each(
	ctx context.Context, j owned.Record[job], good func(jobLine) error, faulty func(*batch.LineError) error,
) error {
	content, err := b.Files.Read(ctx, j.Value.Input)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	reader := batch.NewReader(content, batch.Config{Unique: j.Value.State != stateValidating})
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		fault, ok := errors.AsType[*batch.LineError](err)
		if err != nil && !ok {
			return err
		}
		if err == nil && line.URL != j.Value.Endpoint {
			fault = &batch.LineError{Line: line.Number, Field: "url", Err: fmt.Errorf(
				"%w %.80q: the endpoint of the batch is %s", batch.ErrUnknownURL, line.URL, j.Value.Endpoint)}
		}
		if fault != nil {
			err = faulty(fault)
		} else {
			err = good(jobLine{line})
		}
		if err != nil {
			return err
		}
	}
}

// errStop ends the reading of a file.
var errStop = errors.New("the rest of the file does not matter")

// validateBatch reads the whole file. A line that is no request lets the batch fail; a request that no limit serves is
// an error of its own later.
func (g *Gateway) validateBatch(ctx context.Context, j owned.Record[job]) error {
	b := g.batching
	var faults []lineFault
	var buckets []string
	total, last := 0, 0
	err := b.each(ctx, j, func(line jobLine) error {
		total, last = total+1, line.Number
		if total > linesMost {
			faults = append(faults, lineFault{
				Code:    "too_many_requests",
				Message: fmt.Sprintf("The file has more than %d requests.", linesMost),
			})
			return errStop
		}
		if charges, err := g.chargesOf(line, j.Value); err == nil {
			for _, c := range charges {
				if name := c.Bucket().String(); !slices.Contains(buckets, name) && len(buckets) < faultsMost {
					buckets = append(buckets, name)
				}
			}
		}
		return ctx.Err()
	}, func(fault *batch.LineError) error {
		f := lineFault{Code: codeOf(fault.Err), Message: fault.Err.Error(), Line: &fault.Line}
		if fault.Field != "" {
			f.Param = &fault.Field
		}
		if faults = append(faults, f); len(faults) == faultsMost {
			return errStop
		}
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	if total == 0 && len(faults) == 0 {
		faults = append(faults, lineFault{Code: "empty_file", Message: "The file has no requests."})
	}
	if len(faults) == 0 {
		if _, _, err = b.Results.Open(ctx, batches.Batch{
			ID: j.ID, Name: j.Value.Name, Hash: j.Value.Input, Lines: last, Requests: total, Created: j.Created,
			Limit: strings.Join(buckets, batches.LimitsBetween), Queue: envelope.QueueDefault, Retries: requests.Retries,
		}); err != nil {
			return err
		}
	}
	_, err = b.jobs.Change(ctx, j.Owner, j.ID, func(r *owned.Record[job]) bool {
		if r.Value.Faults = faults; len(faults) > 0 {
			return r.Value.enter(stateFailed, time.Now())
		}
		r.Value.Total = total
		r.Value.enter(stateInProgress, time.Now()) // unless it was cancelled meanwhile
		return true
	})
	return err
}

// chunks calls do for the requests of a file, some at a time, in the order of the lines. With bodies, a chunk has a few
// MB of them.
func (b *batching) chunks(
	ctx context.Context, j owned.Record[job], bodies bool, do func([]jobLine) error,
) error {
	chunks := batch.Chunks[jobLine]{Do: do}
	err := b.each(ctx, j, func(line jobLine) error {
		if !bodies {
			line.Body = nil
		}
		return chunks.Add(line, len(line.Body))
	}, func(fault *batch.LineError) error { return fault })
	if err != nil {
		return err
	}
	return chunks.Flush()
}

// sendBatch enqueues the requests that have no result and are not in the queue. It may be repeated: a request has an ID
// of its own, and is enqueued once.
func (g *Gateway) sendBatch(ctx context.Context, j owned.Record[job]) error {
	b := g.batching
	stored, err := b.Results.Batch(ctx, j.ID)
	if err != nil {
		return err
	}
	err = b.chunks(ctx, j, true, func(some []jobLine) error {
		last := some[len(some)-1].Number
		if last <= stored.Enqueued {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		known, failed := b.Results.Lines(ctx, j.ID, some[0].Number, last)
		if failed != nil {
			return failed
		}
		open := slices.DeleteFunc(slices.Clone(some), func(l jobLine) bool { return known.Ended(l.Number) })
		if failed = g.enqueue(ctx, j, stored, open, known); failed != nil {
			return failed
		}
		return b.Results.SetEnqueued(ctx, j.ID, last)
	})
	if errors.Is(err, batches.ErrCancelled) {
		return b.enter(ctx, j, stateCancelling) // by its caller, or by `headway cancel`
	}
	if err != nil {
		return err
	}
	_, err = b.jobs.Change(ctx, j.Owner, j.ID, func(r *owned.Record[job]) bool {
		r.Value.Sent = true
		return true
	})
	return err
}

// enqueue enqueues requests. One that can never be served has its result at once.
func (g *Gateway) enqueue(
	ctx context.Context, j owned.Record[job], stored batches.Batch, some []jobLine, known batches.Lines,
) error {
	var args []tasks.Args
	var sent []jobLine
	var failed []batches.Result
	refuse := func(line jobLine, code string, err error) {
		ref := batchref.Ref{Batch: j.ID, Line: line.Number}
		failed = append(failed, record.Failed(record.Request{Line: line.Line, Ref: ref}, code, err))
	}
	for _, line := range some {
		charges, problem := g.chargesOf(line, j.Value)
		if problem != nil {
			refuse(line, cmp.Or(problem.code, "invalid_request"), errors.New(problem.message))
			continue
		}
		ref := batchref.Ref{Batch: j.ID, Line: line.Number, Round: known.Round(line.Number)}.Signed(stored.Key)
		args = append(args, &llm.Call{
			Terms:    tasks.Terms{Taken: charges, CustomID: line.CustomID, Batch: (*tasks.BatchRef)(&ref)},
			Endpoint: llm.Endpoint(line.URL), Request: line.Body,
		})
		sent = append(sent, line)
	}
	infos, err := g.batching.Scheduler.EnqueueMany(ctx, args, g.batching.options())
	if err != nil && infos == nil { // nothing was sent: some can't be
		bad := map[int]bool{}
		for _, fault := range requests.Parts(err) {
			if item, ok := errors.AsType[*scheduler.ItemError](fault); ok {
				bad[item.Index] = true
				refuse(sent[item.Index], record.CodeFailed, item.Err)
			}
		}
		if len(bad) == 0 {
			return err
		}
		var good []jobLine
		for i, line := range sent {
			if !bad[i] {
				good = append(good, line)
			}
		}
		if err = cmp.Or(g.batching.Results.FinishMany(ctx, failed)...); err != nil {
			return err
		}
		return g.enqueue(ctx, j, stored, good, known)
	}
	if err != nil {
		return err
	}
	return cmp.Or(g.batching.Results.FinishMany(ctx, failed)...)
}

// flowOfBatches ends the flow of the batches of a key that is no tenant by itself, so that its calls do not wait behind
// them.
const flowOfBatches = "/batches"

// chargesOf is what a request takes, by the rules of a live call of the key. Requests of batches have the lowest
// priority of each limit. A batch is a flow of its key's tenant.
func (g *Gateway) chargesOf(line jobLine, j job) ([]reservations.Charge, *fault) {
	if _, err := openai.Fields(line.Body); err != nil {
		return nil, &fault{code: "invalid_request", message: "The body " + err.Error() + "."}
	}
	estimate, err := openai.Assess(line.URL, line.Body)
	if err != nil {
		return nil, &fault{code: "invalid_request", message: err.Error()}
	}
	key := j.Key
	key.Priority = ""
	// A key that is a tenant by itself shares its part among its batches.
	own := len(key.Limits) > 0 || key.Budget != nil || key.Flow+key.Tenant == ""
	if key.Flow = cmp.Or(key.Flow, key.Tenant); !own {
		key.Flow += flowOfBatches
	}
	c := &call{route: route{endpoint: line.URL}, model: openai.ModelOf(line.Body), estimate: estimate}
	o, problem := g.orderOf(c, key)
	for i := range o.charges {
		if own {
			o.charges[i].Flow = "" // the batch
		}
	}
	return o.charges, problem
}
