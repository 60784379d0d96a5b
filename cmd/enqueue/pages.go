package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
)

// pageSize is how many tasks of a queue are read at once.
const pageSize = 500

// lister is one of the calls of asynq's inspector that list tasks of a queue.
type lister func(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)

// eachPage calls do for all that list has of the queue, a page at a time. A queue that is not there has nothing; what names the reading in errors.
func eachPage(ctx context.Context, queue string, list lister, what string, do func([]*asynq.TaskInfo) error) error {
	for page := 1; ; page++ {
		if ctx.Err() != nil { // asynq's inspector knows no context
			return ctx.Err()
		}
		infos, err := list(queue, asynq.PageSize(pageSize), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := do(infos); err != nil {
			return err
		}
		if len(infos) < pageSize {
			return nil
		}
	}
}
