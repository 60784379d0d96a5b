package main

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks"
)

// healer returns what gives the archived tasks of a batch their result, where they have none: a worker that died with a task, or could not reach the
// database when it ended, left it so. Nothing changes for those that have one.
func healer(s *services) func(context.Context, batches.Batch) error {
	return func(ctx context.Context, b batches.Batch) error {
		return eachPage(ctx, b.Queue, asynq.NewInspectorFromRedisClient(s.queue).ListArchivedTasks, "list the archived tasks of queue "+b.Queue, func(infos []*asynq.TaskInfo) error {
			return bury(ctx, s.batches, b, infos)
		})
	}
}

// bury stores the results of those that belong to the batch and to the round that is open.
func bury(ctx context.Context, store *batches.Store, b batches.Batch, infos []*asynq.TaskInfo) error {
	var results []batches.Result
	for _, info := range infos {
		ref, ok := tasks.ParseBatchRef(info.ID)
		if !ok || ref.Batch != b.ID {
			continue
		}
		found, ended, err := store.Find(ctx, ref.Batch, ref.Line)
		if err != nil {
			return err
		}
		if ended || found.Round != ref.Round {
			continue
		}
		q := record.Request{Ref: ref}
		if read, known := chat.Requests()[info.Type]; known {
			if whole, readable := read(info.Payload); readable {
				q = whole
			}
		}
		results = append(results, record.Failed(q, record.CodeFailed, archivedError(info.LastErr)))
	}
	for _, o := range store.FinishMany(ctx, results) {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// archivedError is what asynq kept of the last failure.
type archivedError string

func (e archivedError) Error() string { return "the task was archived: " + string(e) }
