package record

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

const (
	stateFresh    = 3 * time.Second // how long the state of a batch is believed
	statePatience = 5 * time.Second
	statesKept    = 1000
)

// states are what this process knows of its batches. No call waits for an answer: what is known
// counts, and is asked for anew in the background.
type states struct {
	store *batches.Store

	mu    sync.Mutex // guards what is below
	known map[string]state
	asks  sync.WaitGroup
}

type state struct {
	cancelled bool
	asked     time.Time // when it was last asked for
}

// cancelled says whether the batch was, some seconds ago.
func (s *states) cancelled(batch string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[batch]
	if time.Since(known.asked) >= stateFresh {
		if s.known == nil || len(s.known) >= statesKept {
			s.known = map[string]state{}
		}
		s.known[batch] = state{cancelled: known.cancelled, asked: time.Now()}
		s.asks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), statePatience)
			defer cancel()
			_, _ = s.ask(ctx, batch) // what was known goes on to count
		})
	}
	return known.cancelled
}

// ask asks the store, and keeps the answer.
func (s *states) ask(ctx context.Context, batch string) (cancelled bool, err error) {
	found, err := s.store.Batch(ctx, batch)
	if errors.Is(err, batches.ErrUnknownBatch) {
		err = nil // its record has expired: results are kept all the same
	}
	if err != nil {
		return false, err
	}
	cancelled = found.ID == batch && found.State == batches.StateCancelled
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]state{}
	}
	s.known[batch] = state{cancelled: cancelled, asked: time.Now()}
	return cancelled, nil
}

func (s *states) wait() { s.asks.Wait() }

// lastPatience bounds how long the end of a task that is archived is held back for its result.
const lastPatience = 20 * time.Second

// Events are those of a worker, so that a task which is archived without the handler's doing has a result as well:
// refused at its start, timed out, refused too often by the provider. Asynq learns of the end after it was written.
// What cannot be written is written when the batch is enqueued again, from the task in the archive.
func (r *Recorder) Events() worker.Events {
	return worker.Events{
		OnFinish: func(f worker.Finish) {
			if _, written := r.told.LoadAndDelete(f.Task.ID); written || f.Result != worker.ResultArchived {
				return
			}
			r.archived(f.Task, f.Payload, codeOf(f.Err), f.Err)
		},
		OnRefuse: func(f worker.Refusal) {
			code := CodeRefused
			if errors.Is(f.Err, tasks.ErrExpired) {
				code = CodeExpired
			}
			r.archived(f.Task, f.Payload, code, f.Err)
		},
	}
}

func (r *Recorder) archived(task worker.TaskRef, payload []byte, code string, err error) {
	read, ok := r.read[task.Type]
	if !ok {
		return
	}
	q, ok := read(payload)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	if failed := r.finish(ctx, Failed(q, code, err)); failed != nil {
		r.log.ErrorContext(ctx, "the result of an archived task is not kept: enqueue its batch again",
			slog.String("task_id", task.ID), slog.Any("error", failed))
	}
}
