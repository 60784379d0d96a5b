package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/tasks"
)

const (
	// lookLeast and lookMost bound the pause between two looks at a batch that runs. A longer one has longer pauses.
	lookLeast = time.Second
	lookMost  = 10 * time.Second
	lookPart  = 60 // a pause is this part of how long the batch has run
	// cancelMost is how long a cancelled batch waits for the requests that run.
	cancelMost = 10 * time.Minute
	// orphanAge is how old the work of a batch without a record is at least: its record comes a moment later.
	orphanAge = time.Minute
)

// advance brings a batch as far as it goes now. Next is when to look again. It may be repeated after any crash.
func (g *Gateway) advance(ctx context.Context, owner, id string) (next time.Duration, ended bool, err error) {
	b := g.batching
	for {
		j, err := b.jobs.Get(ctx, owner, id)
		if errors.Is(err, owned.ErrUnknown) {
			return b.orphan(ctx, id)
		}
		if err != nil {
			return 0, false, err
		}
		v := &j.Value
		now := time.Now()
		switch {
		case v.ended():
			return 0, true, nil
		case v.State == stateFinalizing:
			err = b.finalize(ctx, j)
		case v.State == stateCancelling || v.Late:
			waiting, failed := b.takeBack(ctx, j)
			if failed == nil && waiting {
				return lookLeast, false, nil
			}
			err = failed
		case v.State == stateInProgress && !now.Before(v.Until):
			if err = b.Results.Cancel(ctx, id); err == nil { // workers drop what they receive of it
				_, err = b.jobs.Change(ctx, owner, id, func(r *owned.Record[job]) bool {
					r.Value.Late = true
					return true
				})
			}
		case v.State == stateValidating:
			err = g.validateBatch(ctx, j)
		case !v.Sent:
			err = g.sendBatch(ctx, j)
		default:
			p, failed := b.progress(ctx, id)
			if failed == nil && p.State == batches.StateCancelled {
				failed = b.enter(ctx, j, stateCancelling)
			} else if failed == nil && p.Done+p.Failed < v.Total {
				return min(max(now.Sub(j.Created)/lookPart, lookLeast), lookMost), false, nil
			}
			if err = failed; err == nil && p.State != batches.StateCancelled {
				err = b.enter(ctx, j, stateFinalizing)
			}
		}
		if err != nil {
			return 0, false, err
		}
	}
}

// orphan is work without a record: its gateway was killed, or writes the record now.
func (b *batching) orphan(ctx context.Context, id string) (next time.Duration, ended bool, err error) {
	found, err := b.work.in.Get(ctx, []string{id}, false)
	if err != nil {
		return 0, false, err
	}
	added := found[id].Expires.Add(-workKept)
	return lookLeast, time.Since(added) > orphanAge, nil
}

// finalize stores the files of results, and ends a batch.
func (b *batching) finalize(ctx context.Context, j owned.Record[job]) error {
	last := stateCompleted
	switch {
	case j.Value.Late:
		last = stateExpired
	case j.Value.At[stateCancelling] > 0:
		last = stateCancelled
	}
	j.Value.State = last // requests without a result are errors now
	output, faults, err := b.storeOutputs(ctx, j)
	if err != nil {
		return err
	}
	counts, err := b.Results.Counts(ctx, j.ID)
	if err != nil {
		return err
	}
	_, err = b.jobs.Change(ctx, j.Owner, j.ID, func(r *owned.Record[job]) bool {
		v := &r.Value
		v.Output, v.Errors, v.Done, v.Failed = output, faults, counts.Done, counts.Failed
		return v.enter(last, time.Now())
	})
	return err
}

// takeBack takes back the waiting requests of a batch that was cancelled or has expired. It names all without a result.
// Waiting says that some still run.
func (b *batching) takeBack(ctx context.Context, j owned.Record[job]) (waiting bool, err error) {
	running := 0
	stored, err := b.Results.Batch(ctx, j.ID)
	if err == nil {
		err = b.Results.Cancel(ctx, j.ID) // it may have been opened after the call that cancelled it
	}
	if errors.Is(err, batches.ErrUnknownBatch) { // cancelled before it was validated
		return false, b.enter(ctx, j, stateCancelled)
	}
	if err != nil {
		return false, err
	}
	finder := requests.Finder{Store: b.Results, Queue: b.Queue}
	for taken, failed := range finder.TakeBack(ctx, stored, b.Scheduler.Delete) {
		if failed != nil {
			return false, failed
		}
		left, failed := asynqdb.New(b.Queue).Read(ctx, stored.Queue, taken.Rest)
		if failed != nil {
			return false, failed
		}
		for _, task := range left {
			if task != nil {
				running++
			}
		}
	}
	began := j.Value.Until
	if at := j.Value.At[stateCancelling]; at > 0 {
		began = time.Unix(int64(at), 0)
	}
	if running > 0 && time.Since(began) < cancelMost {
		return true, nil
	}
	if err = b.nameRest(ctx, j); err != nil {
		return true, err
	}
	return false, b.enter(ctx, j, stateFinalizing)
}

// nameRest names the requests of a cancelled batch that have neither a result nor a name: they were never enqueued.
func (b *batching) nameRest(ctx context.Context, j owned.Record[job]) error {
	return b.chunks(ctx, j, false, func(some []jobLine) error {
		known, err := b.Results.Lines(ctx, j.ID, some[0].Number, some[len(some)-1].Number)
		if err != nil {
			return err
		}
		var named []batches.Named
		for _, line := range some {
			if n := line.Number; !known.Ended(n) && !known.Open(n) {
				named = append(named, batches.Named{Line: n, CustomID: line.CustomID})
			}
		}
		return b.Results.Name(ctx, j.ID, named)
	})
}

// enter lets a batch enter a state.
func (b *batching) enter(ctx context.Context, j owned.Record[job], state string) error {
	_, err := b.jobs.Change(ctx, j.Owner, j.ID, func(r *owned.Record[job]) bool {
		return r.Value.enter(state, time.Now())
	})
	return err
}

// options are the options of each request.
func (b *batching) options() tasks.Options {
	return tasks.Options{
		Queue: envelope.QueueDefault, MaxRetry: requests.Retries, Retention: requests.Kept, SkipExisting: true,
	}
}
