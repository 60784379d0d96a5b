package record

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

const (
	stateFresh    = 3 * time.Second // how long the stored state of a batch is used without a new query
	statePatience = 5 * time.Second
	// keyFresh is how long the stored key of a batch is used without a new query. One that runs is queried all the time.
	keyFresh     = time.Minute
	statesKept   = 1000
	countersKept = 20 // each has the sums of a batch
)

// states caches the states of batches. No call waits for the database: the cached state counts, and a query in the
// background refreshes it. A query also stops a batch that has as many failed requests as it may have.
type states struct {
	store    *batches.Store
	known    bounded.Map[string, state]
	counters bounded.Map[string, *batches.Counter]
	asks     sync.WaitGroup
	stopped  func(batches.Batch) // a query has stopped a batch
}

type state struct {
	cancelled bool
	bounded   bool      // failed requests may stop it
	key       string    // signs its references; another one if it begins again
	asked     time.Time // the time of the last query
	failures  int       // that this process has stored
	counting  bool      // a query for them is under way
}

// cancelled returns whether the batch was cancelled, as of some seconds ago.
func (s *states) cancelled(batch string) (cancelled bool) {
	var due bool
	s.known.Change(batch, func(known *state) {
		cancelled = known.cancelled
		if due = time.Since(known.asked) >= stateFresh; due {
			known.asked = time.Now()
		}
	})
	if due {
		s.asks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), statePatience)
			defer cancel()
			_, _ = s.ask(ctx, batch) // the cached state stays
		})
	}
	return cancelled
}

// failed has the failed requests of a batch counted again, if these may stop it. One count is under way at a time; a
// failure that is stored meanwhile has another one follow.
func (s *states) failed(batch string) {
	var begin bool
	s.known.Change(batch, func(known *state) {
		known.failures++
		begin = known.bounded && !known.counting
		known.counting = known.counting || begin
	})
	if !begin {
		return
	}
	s.asks.Go(func() {
		for again := true; again; {
			counted := s.known.Get(batch).failures
			ctx, cancel := context.WithTimeout(context.Background(), statePatience)
			_, err := s.ask(ctx, batch)
			cancel()
			s.known.Change(batch, func(known *state) {
				again = err == nil && !known.cancelled && known.failures != counted
				known.counting = again
			})
		}
	})
}

// signed returns whether the batch of a reference is stored, and has signed it. The stored key counts where the cached
// one is old or has not signed. A batch that expired and began again has another key.
func (s *states) signed(ctx context.Context, ref batchref.Ref) (there, signed bool, err error) {
	if known := s.known.Get(ref.Batch); time.Since(known.asked) < keyFresh && ref.SignedBy(known.key) {
		return true, true, nil
	}
	found, err := s.query(ctx, ref.Batch)
	return found.key != "", ref.SignedBy(found.key), err
}

// ask queries the store whether the batch was cancelled.
func (s *states) ask(ctx context.Context, batch string) (cancelled bool, err error) {
	found, err := s.query(ctx, batch)
	return found.cancelled, err
}

// query reads the record of a batch, and caches it. The state of a batch that is not stored is zero.
func (s *states) query(ctx context.Context, batch string) (read state, err error) {
	found, err := s.store.Batch(ctx, batch)
	if errors.Is(err, batches.ErrUnknownBatch) || errors.Is(err, batches.ErrAmbiguousBatch) {
		err = nil
	}
	if err == nil && found.ID == batch && found.State == batches.StateOpen && found.FailuresMost > 0 {
		found, err = s.bound(ctx, batch)
	}
	if err != nil {
		return state{}, err
	}
	s.known.Change(batch, func(known *state) {
		known.cancelled, known.bounded, known.key = false, false, ""
		if found.ID == batch {
			known.cancelled, known.bounded = found.State == batches.StateCancelled, found.FailuresMost > 0
			known.key = found.Key
		}
		known.asked = time.Now()
		read = *known
	})
	return read, nil
}

// bound counts the failed requests of a batch, and stops it if these are too many.
func (s *states) bound(ctx context.Context, batch string) (batches.Batch, error) {
	var counter *batches.Counter
	s.counters.Change(batch, func(shared **batches.Counter) {
		*shared = cmp.Or(*shared, s.store.Counter(batch))
		counter = *shared
	})
	b, stopped, err := counter.Bound(ctx)
	if stopped {
		s.asks.Go(func() { s.stopped(b) })
	}
	return b, err
}

// lastPatience bounds how long the archiving of a task waits until its result is stored.
const lastPatience = 20 * time.Second

// Event is for worker.Config.Events. It writes the results of tasks that are archived without their handlers: refused
// at the start, timed out, or refused too often by the provider. asynq receives the end of a task after the result is
// written. If the write fails, the next enqueueing of the batch writes the result, from the task in the archive.
func (r *Recorder) Event(e worker.Event) {
	if e.Ended() {
		if _, done := r.written.LoadAndDelete(e.Task.ID); !done && e.Kind == worker.KindArchived {
			r.archived(e.Task, e.Payload, codeOf(e.Err), e.Err)
		}
	}
	if e.Kind == worker.KindRejected {
		code := CodeRefused
		if errors.Is(e.Err, tasks.ErrExpired) {
			code = CodeExpired
		}
		r.archived(e.Task, e.Payload, code, e.Err)
	}
}

func (r *Recorder) archived(task worker.TaskRef, payload []byte, code string, err error) {
	q, ok := r.read(task.Type, payload)
	if !ok || errors.Is(err, ErrForged) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	failed := r.genuine(ctx, task.ID, q)
	if failed == nil {
		failed = r.finish(ctx, Failed(q, code, err))
	}
	switch {
	case errors.Is(failed, ErrForged):
		r.log.WarnContext(ctx, "an archived task is not the request of a batch that its payload names",
			slog.String("task_id", task.ID), slog.Any("error", failed))
	case failed != nil:
		r.log.ErrorContext(ctx, "the result of an archived task is not stored: enqueue its batch again",
			slog.String("task_id", task.ID), slog.Any("error", failed))
	}
}
