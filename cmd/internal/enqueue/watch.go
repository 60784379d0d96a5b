package enqueue

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
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
	counter *batches.Counter
	running runningTasks
	show    *show // nil if the batch is looked at once

	ended  int       // How many requests had ended.
	moved  time.Time // When a request ended last, or the archive was read.
	asked  time.Time // When the causes were last asked for, or a request ended.
	causes causes    // As of asked; zero while requests end, but for the error.
}

func (s services) watch(b batches.Batch) *watch {
	return &watch{services: s, batch: b, counter: s.Batches.Counter(b.ID), running: s.running}
}

// lacking returns what keeps the next task of a batch from its workers, and what ends that. Both are empty if there is
// no such thing.
func (s services) lacking(ctx context.Context, b batches.Batch) (why, remedy string, err error) {
	ref, found, err := s.finder().Next(ctx, b)
	if err != nil || !found {
		return "", "", err
	}
	e, err := s.Scheduler.Explain(ctx, b.Queue, ref.TaskID())
	if e.Reason == scheduler.ReasonWorker && e.Lacking == "" {
		returned := cause.Returned(e.Cause)
		return returned.Text, returned.Remedy, err
	}
	return e.Lacking, e.Remedy, err
}

// run shows the figures until all requests have ended, ctx ends, or the batch is cancelled. It waits for a database
// that is away.
func (w *watch) run(ctx context.Context) (figures, error) {
	last := newFigures(batches.Progress{Batch: w.batch})
	defer w.show.close()
	for {
		began := time.Now()
		f, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return last, context.Canceled
		case errors.Is(err, batches.ErrUnavailable), errors.Is(err, reservations.ErrUnavailable):
			w.show.trouble(err)
		case err != nil:
			return last, err
		case f.State == batches.StateCancelled:
			w.show.end(f)
			return f, cancelledError(f.Batch)
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

// look returns the figures of the batch at this moment.
func (w *watch) look(ctx context.Context) (figures, error) {
	p, err := w.counter.Progress(ctx)
	if err != nil {
		return figures{}, err
	}
	now, f := time.Now(), newFigures(p)
	if first, ended := w.moved.IsZero(), p.Done+p.Failed; first || w.ended != ended {
		w.moved, w.ended = now, ended
		if !first {
			w.asked, w.causes = now, w.causes.errorOnly()
		}
	}
	if f.Cancelled > 0 {
		// if Redis does not answer, the other figures are shown
		if running, failed := w.running(ctx, p.Queue); failed == nil {
			f.run(len(running[p.ID]))
		}
	}
	w.ask(ctx, now, p.Batch, &f)
	f.because(w.causes)
	if w.show != nil || f.State == batches.StateOpen { // else no rate is asked for
		view, err := lastView(ctx, w.Limiter, p.Batch)
		if err != nil {
			return figures{}, err
		}
		f.estimate(p.Pace(now), view)
	}
	f.price(w.Config.Prices)
	if f.Waiting > 0 && now.Sub(w.moved) >= healEvery {
		w.moved = now
		return f, w.heal(ctx, p.Batch)
	}
	return f, nil
}

// ask looks up the causes if nothing has ended for a while. If Redis does not answer, the other figures are shown.
func (w *watch) ask(ctx context.Context, now time.Time, b batches.Batch, f *figures) {
	if now.Sub(w.asked) < askEvery && f.Waiting > 0 {
		return
	}
	if f.Failed+f.Retried > 0 {
		trouble, _ := w.Batches.Trouble(ctx, b.ID) // the counts say that the database is away
		w.causes.Error, w.causes.Errors = trouble.Error, trouble.Requests
	}
	if f.Waiting == 0 || f.State != batches.StateOpen {
		return
	}
	w.asked, w.causes = now, w.causes.errorOnly()
	queue, err := asynqdb.New(w.Queue).State(ctx, b.Queue, "")
	if err != nil {
		w.causes.Trouble = err.Error()
		return
	}
	w.causes.Workers, w.causes.elsewhere, w.causes.Paused = &queue.Workers, queue.Others, queue.Paused
	if f.gone(queue.Tasks) > 0 { // counted again: what has ended meanwhile is not missing
		if c, failed := w.Batches.Counts(ctx, b.ID); failed == nil {
			again := newFigures(batches.Progress{Batch: b, Counts: c})
			w.causes.Missing = again.gone(queue.Tasks)
		}
	}
	if queue.Workers == 0 {
		return
	}
	w.causes.Lost, w.causes.lostIn, _ = w.lost(ctx, b, f.Waiting) // as above
	if now.Sub(f.Last) >= askEvery {
		w.causes.Lacking, w.causes.remedy, _ = w.lacking(ctx, b) // as above
	}
}

// lastBucket is the last of the buckets of a batch, as its record has them.
func lastBucket(limits string) reservations.BucketName {
	names := strings.Split(limits, batches.LimitsBetween)
	last, _ := reservations.ParseBucket(names[len(names)-1]) // a bad one is no limit's
	return last
}

// lastView is the bucket of the last limit of a batch, the provider's, with the SettleMode of each meter. One that is
// not configured here has no view.
func lastView(ctx context.Context, limiter *reservations.Limiter, b batches.Batch) (reservations.View, error) {
	bucket := lastBucket(b.Limit)
	limit, err := inside.Of(limiter).Limits().For(bucket.Limit, bucket.Key)
	if err != nil {
		return reservations.View{}, nil //nolint:nilerr // there is nothing to see
	}
	view, err := limiter.View(ctx, bucket.Limit, bucket.Key)
	for k, m := range view.Meters {
		view.Meters[k].Settle = cmp.Or(m.Settle, limit.Settle)
	}
	return view, err
}
