package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/internal/register"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

const (
	lookMin   = 300 * time.Millisecond
	lookMax   = 5 * time.Second
	lookShare = 10               // Looks take at most a tenth of the time.
	healEvery = 20 * time.Second // After this time without an ended request, the archive is read.
	askEvery  = 5 * time.Second  // The same until Redis is asked for running tasks, and then the interval.
)

// watch looks at a batch once, or until all of its requests have ended.
type watch struct {
	services

	batch   batches.Batch
	show    show
	running runningTasks

	ended   int                 // How many requests had ended.
	moved   time.Time           // When a request ended last, or the archive was read.
	asked   time.Time           // When Redis was last asked for running tasks, or a request ended.
	by      *asynqdb.QueueState // Nil while requests end, and if Redis could not be asked.
	away    error               // Why Redis could not be asked.
	trouble batches.Trouble     // As of asked.
	missing int                 // As of asked: requests that are not in the queue.
	gone    lost                // As of asked.
	need    *register.Need      // As of asked: what no live worker has.
}

func (s services) watch(b batches.Batch) *watch {
	return &watch{services: s, batch: b, running: s.running}
}

// lacking returns what the next task of a batch needs and no live worker has; nil if there is no such thing.
func (s services) lacking(ctx context.Context, b batches.Batch) (*register.Need, error) {
	members, err := register.New(s.Queue).Members(ctx)
	if err != nil || len(members) == 0 {
		return nil, err
	}
	ref, found, err := s.finder().Next(ctx, b)
	if err != nil || !found {
		return nil, err
	}
	e, err := s.Scheduler.Explain(ctx, scheduler.Task{Queue: b.Queue, ID: ref.TaskID()})
	if err != nil || e.State == asynq.TaskStateActive.String() { // a worker that has it took it
		return nil, err
	}
	needs := []register.Need{{Type: e.Type}}
	for _, c := range e.Charges {
		needs = append(needs, register.Need{Limit: c.Limit})
		for _, meter := range slices.Sorted(maps.Keys(c.Tokens)) {
			needs = append(needs, register.Need{Limit: c.Limit, Meter: meter})
		}
	}
	return register.Lacking(members, needs...), nil
}

// run shows the figures until all requests have ended, ctx ends, or the batch is cancelled. It waits for a database
// that is away.
func (w *watch) run(ctx context.Context) (figures, error) {
	counter := w.Batches.Counter(w.batch.ID)
	last := newFigures(w.batch, batches.Counts{})
	defer w.show.close()
	for {
		began := time.Now()
		f, err := w.look(ctx, counter)
		switch {
		case ctx.Err() != nil:
			return last, context.Canceled
		case errors.Is(err, batches.ErrUnavailable), errors.Is(err, reservations.ErrUnavailable):
			w.show.trouble(err)
		case err != nil:
			return last, err
		case f.State == string(batches.StateCancelled):
			w.show.end(f)
			return f, fmt.Errorf("batch %s was %w; enqueue its file again to go on. `headway results %s` has the "+
				"answers of requests that still run", f.Batch, batches.ErrCancelled, f.Batch)
		case f.Waiting == 0:
			w.show.end(f)
			return f, nil
		default:
			last = f
			w.show.progress(f)
		}
		if pause.For(ctx, min(lookMax, max(lookMin, lookShare*time.Since(began)))) != nil {
			return last, context.Canceled
		}
	}
}

// look counts once.
func (w *watch) look(ctx context.Context, counter *batches.Counter) (figures, error) {
	p, err := counter.Progress(ctx)
	if err != nil {
		return figures{}, err
	}
	now := time.Now()
	if first, ended := w.moved.IsZero(), p.Done+p.Failed; first || w.ended != ended {
		w.moved, w.ended = now, ended
		if !first {
			w.asked, w.by, w.away = now, nil, nil
		}
	}
	f, err := w.figures(ctx, now, p, p.Pace(now))
	if err == nil && f.Waiting > 0 && now.Sub(w.moved) >= healEvery {
		w.moved = now
		err = w.heal(ctx, p.Batch)
	}
	return f, err
}

// figures returns the figures of a batch.
func (w *watch) figures(ctx context.Context, now time.Time, p batches.Progress, l batches.Pace) (figures, error) {
	b, f := p.Batch, newFigures(p.Batch, p.Counts)
	if f.Cancelled > 0 {
		// if Redis does not answer, the other figures are shown
		if running, failed := w.running(ctx, b.Queue); failed == nil {
			f.run(len(running[b.ID]))
		}
	}
	w.ask(ctx, now, b, &f)
	f.Error, f.Errors = w.trouble.Error, w.trouble.Requests
	if w.away != nil {
		f.Trouble = w.away.Error()
	}
	if w.by != nil {
		f.Workers, f.Paused, f.Missing = &w.by.Workers, w.by.Paused, min(w.missing, f.Waiting)
		if w.need != nil {
			f.Lacking, f.remedy = w.need.String(), w.need.Remedy()
		}
		if left := w.gone.in.Seconds(); !f.rests() && w.gone.requests > 0 && w.gone.requests >= f.Waiting {
			f.Lost, f.lostIn, f.Left, f.LeftBy = w.gone.requests, w.gone.in, &left, byLease
		}
	}
	if l.Within > 0 { // else it is not asked for
		view, err := lastView(ctx, w.Limiter, b)
		if err != nil {
			return figures{}, err
		}
		f.estimate(p.Counts, l, view)
	}
	f.price(p.Models, w.Config.Prices)
	return f, nil
}

// ask looks up what works, and the newest error, if nothing has ended for a while. If Redis does not answer, the other
// figures are shown.
func (w *watch) ask(ctx context.Context, now time.Time, b batches.Batch, f *figures) {
	if now.Sub(w.asked) < askEvery && f.Waiting > 0 {
		return
	}
	if f.Failed+f.Retried > 0 {
		w.trouble, _ = w.Batches.Trouble(ctx, b.ID) // the counts say that the database is away
	}
	if f.Waiting == 0 || f.State != string(batches.StateOpen) {
		return
	}
	w.asked, w.by, w.gone, w.missing, w.need = now, nil, lost{}, 0, nil
	by, err := w.serving(ctx, b.Queue)
	if w.away = err; err != nil {
		return
	}
	w.by = &by
	if f.gone(by.Tasks) > 0 { // counted again: what has ended meanwhile is not missing
		if c, failed := w.Batches.Counts(ctx, b.ID); failed == nil {
			again := newFigures(b, c)
			w.missing = again.gone(by.Tasks)
		}
	}
	if by.Workers > 0 {
		w.gone, _ = w.lost(ctx, b, f.Waiting) // as above
		if now.Sub(f.lastEnded) >= askEvery {
			w.need, _ = w.lacking(ctx, b) // as above
		}
	}
}

// lastView is the bucket of the last limit of a batch, the provider's, with the SettleMode of each meter. One that is
// not configured here has no view.
func lastView(ctx context.Context, limiter *reservations.Limiter, b batches.Batch) (reservations.View, error) {
	bucket := lastBucket(b.Limit)
	limit, err := limiter.Limits().For(bucket.Limit, bucket.Key)
	if err != nil {
		return reservations.View{}, nil //nolint:nilerr // there is nothing to see
	}
	view, err := limiter.View(ctx, bucket.Limit, bucket.Key)
	for k, m := range view.Meters {
		view.Meters[k].Settle = cmp.Or(m.Settle, limit.Settle)
	}
	return view, err
}
