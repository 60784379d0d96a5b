package record

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

const (
	stateFresh    = 3 * time.Second // how long the stored state of a batch is used without a new query
	statePatience = 5 * time.Second
	statesKept    = 1000
)

// states caches the states of batches. No call waits for the database: the cached state counts, and a query in the
// background refreshes it.
type states struct {
	store *batches.Store
	known bounded.Map[string, state]
	asks  sync.WaitGroup
}

type state struct {
	cancelled bool
	key       string    // that signs the references of the batch; it never changes
	asked     time.Time // the time of the last query
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

// key returns the key of a batch. It is empty for a batch that is not stored: none of its references is signed.
func (s *states) key(ctx context.Context, batch string) (string, error) {
	if known := s.known.Get(batch); known.key != "" {
		return known.key, nil
	}
	found, err := s.query(ctx, batch)
	return found.key, err
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
	if err != nil {
		return state{}, err
	}
	if found.ID == batch {
		read.cancelled, read.key = found.State == batches.StateCancelled, found.Key
	}
	read.asked = time.Now()
	s.known.Change(batch, func(known *state) { *known = read })
	return read, nil
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
