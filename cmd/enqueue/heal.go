package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks"
)

// archivePage is how many archived tasks are read at once.
const archivePage = 500

// healer returns what gives the archived tasks of a batch their result, where they have none: a worker that died with a task, or could not reach the
// database when it ended, left it so. Nothing changes for those that have one.
func healer(s *services) func(context.Context, batches.Batch) error {
	return func(ctx context.Context, b batches.Batch) error {
		inspector := asynq.NewInspectorFromRedisClient(s.queue)
		for page := 1; ; page++ {
			if ctx.Err() != nil { // asynq's inspector knows no context
				return ctx.Err()
			}
			infos, err := inspector.ListArchivedTasks(b.Queue, asynq.PageSize(archivePage), asynq.Page(page))
			if errors.Is(err, asynq.ErrQueueNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("list the archived tasks of queue %s: %w", b.Queue, err)
			}
			if err := bury(ctx, s.batches, b, infos); err != nil {
				return err
			}
			if len(infos) < archivePage {
				return nil
			}
		}
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
