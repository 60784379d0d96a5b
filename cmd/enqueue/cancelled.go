package main

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/batches"
)

// cancel tells what a cancelled batch has left from what waits: nothing of it starts any more, so all that have no result are cancelled, but those
// that run.
func (f *figures) cancel(b batches.Batch, c batches.Counts) {
	f.Cancelled, f.Waiting = f.Waiting, 0
	f.unseen, f.unsent = max(0, f.Cancelled-c.Unanswered), b.Enqueued < b.Lines
}

// run says that so many of a cancelled batch have still begun.
func (f *figures) run(n int) {
	n = min(n, f.Cancelled)
	f.Cancelled, f.Waiting, f.unseen = f.Cancelled-n, f.Waiting+n, max(0, f.unseen-n)
}

// left is what has no result yet, for people.
func (f *figures) left() string {
	if f.State != string(batches.StateCancelled) {
		return count(f.Waiting) + " waiting"
	}
	text := count(f.Cancelled) + " cancelled"
	if f.Waiting > 0 {
		text += fmt.Sprintf(", %s run", count(f.Waiting))
	}
	return text
}

// unseenText says of how many nobody has noted that they were taken back, as after a cancel that was interrupted; empty where that is known of all.
func (f *figures) unseenText() string {
	if f.unseen == 0 {
		return ""
	}
	where := "may still be in the queue"
	if f.unsent {
		where = "were never enqueued or may still be in the queue"
	}
	return fmt.Sprintf("%s of the cancelled %s (`enqueue cancel %s` takes those back)", count(f.unseen), where, f.Batch)
}

// runningOf says how many requests of a batch workers have at this moment.
type runningOf func(context.Context, batches.Batch) (int, error)

// runningNow is a runningOf.
func (s *services) runningNow(ctx context.Context, b batches.Batch) (int, error) {
	return s.runningOnce()(ctx, b)
}

// runningOnce is a runningOf that asks once for each queue, however many batches it has.
func (s *services) runningOnce() runningOf {
	queues := map[string]map[string][]int{}
	return func(ctx context.Context, b batches.Batch) (int, error) {
		found, known := queues[b.Queue]
		if !known {
			var err error
			if found, err = s.running(ctx, b.Queue); err != nil {
				return 0, err
			}
			queues[b.Queue] = found
		}
		return len(found[b.ID]), nil
	}
}
