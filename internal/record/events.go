package record

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// lastPatience bounds how long the end of a task that is archived is held back for its result.
const lastPatience = 20 * time.Second

// Events are those of a worker, so that a task which is archived without the handler's doing has a result as well: refused at its start,
// timed out, refused too often by the provider. Asynq is told after it was written. What cannot be written is written by whoever
// enqueues the batch again: he finds the task in the archive.
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
		r.log.ErrorContext(ctx, "the result of an archived task is not kept: enqueue its batch again", slog.String("task_id", task.ID), slog.Any("error", failed))
	}
}
