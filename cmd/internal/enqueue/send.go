package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

const (
	// settleDown is what workers are given to drop the tasks of a cancelled batch that they have in hand when it is
	// opened again: one that is dropped after it was found in the queue would be missing.
	settleDown = 2 * time.Second
)

// send enqueues the good lines of the file that have no result and are not in the queue.
func (j *batchJob) send(ctx context.Context, options tasks.Options) error {
	if j.existed {
		if err := j.s.heal(ctx, j.batch); err != nil {
			return err
		}
	}
	options.SkipExisting = true
	r := &j.result
	bar := cli.NewProgress(j.env.Err, "enqueued", r.Requests)
	defer bar.Close()
	err := j.chunks(func(some []request) error {
		defer func() { bar.Set(r.Enqueued + r.Waiting + r.Finished + r.Expired) }()
		return j.enqueue(ctx, some, options)
	})
	before := r.Enqueued + r.Waiting + r.Finished
	switch {
	case errors.Is(err, batches.ErrCancelled):
		b, failed := j.s.Batches.Batch(ctx, r.Batch)
		if failed != nil || b.StoppedBy == "" {
			return fmt.Errorf("stopped after %d of %d requests: batch %s was %w meanwhile", before, r.Requests, r.Batch,
				batches.ErrCancelled)
		}
		return fmt.Errorf("%d of %d requests were enqueued: %w", before, r.Requests, cancelledError(b))
	case errors.Is(ctx.Err(), context.Canceled):
		return &interruptedError{fmt.Sprintf("interrupted: %d of %d requests were enqueued (the same command goes on "+
			"there; `%s` stops them)", before, r.Requests, shell.Command("headway cancel", r.Batch))}
	case err != nil:
		return fmt.Errorf("%d of %d requests were enqueued before (the same command goes on there): %w", before,
			r.Requests, err)
	}
	return nil
}

// chunks calls do for the good lines of the file, some at a time.
func (j *batchJob) chunks(do func([]request) error) error {
	chunks := batch.Chunks[request]{Do: do}
	err := j.from.each(j.input, j.result.Faulty == 0, func(task request) error {
		return chunks.Add(task, len(task.line.Body))
	}, func(error) {})
	if err != nil {
		return err
	}
	return chunks.Flush()
}

// enqueue sends some requests in the order of their lines.
func (j *batchJob) enqueue(ctx context.Context, some []request, options tasks.Options) error {
	r, last := &j.result, some[len(some)-1].line.Number
	var known batches.Lines
	if j.existed {
		var err error
		if known, err = j.s.Batches.Lines(ctx, r.Batch, some[0].line.Number, last); err != nil {
			return err
		}
	}
	open := slices.DeleteFunc(slices.Clone(some), func(task request) bool { return known.Ended(task.line.Number) })
	args := make([]tasks.Args, len(open))
	for i, task := range open {
		args[i] = task.of(j.batch, known.Round(task.line.Number))
	}
	infos, err := j.s.Scheduler.EnqueueMany(ctx, args, options)
	late, err := j.expire(ctx, open, err)
	for _, info := range infos {
		if info != nil {
			r.Enqueued++
		} else if err == nil {
			r.Waiting++
		}
	}
	if err != nil {
		return err
	}
	r.Waiting -= late
	r.Expired += late
	r.Finished += len(some) - len(open)
	return j.s.Batches.SetEnqueued(ctx, r.Batch, last)
}

// expire writes the results of the requests that are not enqueued because they would start too late (--start-by), and
// returns how many there are. The error is what else has failed.
func (j *batchJob) expire(ctx context.Context, sent []request, failed error) (late int, err error) {
	var results []batches.Result
	var others []error
	for _, fault := range requests.Parts(failed) {
		item, ok := errors.AsType[*scheduler.ItemError](fault)
		if !ok || !errors.Is(item.Err, tasks.ErrExpired) {
			others = append(others, fault)
			continue
		}
		task := sent[item.Index]
		q := record.Request{Line: task.line, Ref: batchref.Ref(*task.Batch)}
		results = append(results, record.Failed(q, record.CodeExpired, item.Err))
	}
	if err := errors.Join(others...); err != nil {
		return 0, err
	}
	if err := cmp.Or(j.s.Batches.FinishMany(ctx, results)...); err != nil {
		return 0, fmt.Errorf("keep the result of a request that would start too late: %w", err)
	}
	return len(results), nil
}
