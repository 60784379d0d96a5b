package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/tasks"
)

const (
	// chunk is the number of requests that are enqueued together.
	chunk = 500
	// chunkBytes is about the most that their bodies take together.
	chunkBytes = 8_000_000
	// settleDown is what workers are given to drop the tasks of a cancelled batch that they have in hand when it is
	// opened again: one that is dropped after it was found in the queue would be missing.
	settleDown = 2 * time.Second
)

// sender enqueues the lines of a batch, chunk by chunk.
type sender struct {
	s       services
	batch   batches.Batch
	known   bool // the batch was sent before, at least a part of it
	options tasks.Options
	result  *result
	bar     *cli.Progress

	lines    []int
	gathered []request
	size     int // of their bodies
}

// send enqueues the good lines of the file that have no result and are not in the queue.
func (j *batchJob) send(
	ctx context.Context, s services, b batches.Batch, existed bool, file io.Reader, options tasks.Options,
	r *result,
) error {
	if existed {
		if err := s.heal(ctx, b); err != nil {
			return err
		}
	}
	options.SkipExisting = true
	bar := cli.NewProgress(j.env.Err, "enqueued", r.Requests)
	defer bar.Close()
	out := &sender{
		s: s, batch: b, known: existed, options: options, result: r,
		bar: bar,
	}
	err := j.make.each(file, r.Faulty == 0, func(line batch.Line, task request) error {
		out.lines, out.gathered = append(out.lines, line.Number), append(out.gathered, task)
		if out.size += len(line.Body); len(out.lines) < chunk && out.size < chunkBytes {
			return nil
		}
		return out.flush(ctx)
	}, func(error) {})
	if err == nil {
		err = out.flush(ctx)
	}
	switch {
	case errors.Is(err, batches.ErrCancelled):
		return fmt.Errorf("stopped after %d of %d requests: batch %s was %w meanwhile", r.Enqueued+r.Waiting+r.Finished,
			r.Requests, b.ID, batches.ErrCancelled)
	case errors.Is(ctx.Err(), context.Canceled):
		return &interruptedError{fmt.Sprintf("interrupted: %d of %d requests were enqueued (the same command goes on "+
			"there)", r.Enqueued+r.Waiting+r.Finished, r.Requests)}
	case err != nil:
		return fmt.Errorf("%d of %d requests were enqueued before (the same command goes on there): %w",
			r.Enqueued+r.Waiting+r.Finished, r.Requests, err)
	}
	return nil
}

// flush sends what was gathered.
func (o *sender) flush(ctx context.Context) error {
	if len(o.lines) == 0 {
		return nil
	}
	first, last := o.lines[0], o.lines[len(o.lines)-1]
	done := &batches.LineSet{}
	if o.known {
		var err error
		if done, err = o.s.Batches.Finished(ctx, o.batch.ID, first, last); err != nil {
			return err
		}
	}
	args := make([]tasks.Args, 0, len(o.lines))
	for i, line := range o.lines {
		if !done.Has(line) {
			args = append(args, o.gathered[i].of(o.batch.ID, line, done.Round(line)))
		}
	}
	infos, err := o.s.Scheduler.EnqueueMany(ctx, args, o.options)
	late, err := o.expire(ctx, args, err)
	for _, info := range infos {
		if info != nil {
			o.result.Enqueued++
		} else if err == nil {
			o.result.Waiting++
		}
	}
	if err != nil {
		return err
	}
	o.result.Waiting -= late
	o.result.Expired += late
	o.result.Finished += len(o.lines) - len(args)
	o.bar.Set(o.result.Enqueued + o.result.Waiting + o.result.Finished + o.result.Expired)
	clear(o.gathered)
	o.lines, o.gathered, o.size = o.lines[:0], o.gathered[:0], 0
	return o.s.Batches.SetEnqueued(ctx, o.batch.ID, last)
}
