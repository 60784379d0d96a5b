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

// ask queries the store, and caches the answer.
func (s *states) ask(ctx context.Context, batch string) (cancelled bool, err error) {
	found, err := s.store.Batch(ctx, batch)
	if errors.Is(err, batches.ErrUnknownBatch) {
		err = nil // the record has expired: results are stored anyway
	}
	if err != nil {
		return false, err
	}
	cancelled = found.ID == batch && found.State == batches.StateCancelled
	s.known.Change(batch, func(known *state) { *known = state{cancelled: cancelled, asked: time.Now()} })
	return cancelled, nil
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
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	if failed := r.finish(ctx, Failed(q, code, err)); failed != nil {
		r.log.ErrorContext(ctx, "the result of an archived task is not stored: enqueue its batch again",
			slog.String("task_id", task.ID), slog.Any("error", failed))
	}
}
