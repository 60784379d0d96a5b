package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// expire writes the results of the requests that are not enqueued because they would start too late (--start-by), and
// returns how many there are. The error is what else has failed.
func (s services) expire(ctx context.Context, args []tasks.Args, failed error) (late int, err error) {
	var results []batches.Result
	var others []error
	for _, fault := range parts(failed) {
		item, ok := errors.AsType[*scheduler.ItemError](fault)
		if !ok || !errors.Is(item.Err, tasks.ErrExpired) {
			others = append(others, fault)
			continue
		}
		e, err := envelope.Encode(args[item.Index])
		if err != nil {
			return 0, err
		}
		if q, ok := chat.Request(e.Task.Type(), e.Task.Payload()); ok {
			results = append(results, record.Failed(q, record.CodeExpired, item.Err))
		}
	}
	if err := errors.Join(others...); err != nil {
		return 0, err
	}
	if err := cmp.Or(s.Batches.FinishMany(ctx, results)...); err != nil {
		return 0, fmt.Errorf("keep the result of a request that would start too late: %w", err)
	}
	return len(results), nil
}

// parts are the errors that were joined in err.
func parts(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
