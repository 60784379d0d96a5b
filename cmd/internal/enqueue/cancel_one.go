package enqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/record"
)

// codeRequestCancelled is the failure of a request that was cancelled by itself.
const codeRequestCancelled = "request_cancelled"

// errRequestCancelled is its text.
var errRequestCancelled = errors.New("this request was cancelled")

// cancelOne deletes the task of one request, and stores that it failed.
func (s services) cancelOne(
	ctx context.Context, env cli.Environment, b batches.Batch, customID, file string, asJSON bool,
) error {
	if err := s.canGiveBack(b, file); err != nil {
		return err
	}
	ref, err := s.finder().Named(ctx, b, customID)
	if err != nil {
		return err
	}
	withdrawn, err := s.Scheduler.Withdraw(ctx, b.Queue, ref.TaskID())
	if err != nil {
		return err
	}
	task := withdrawn[0]
	if task == nil {
		return fmt.Errorf("request %q of batch %s is not cancelled: it runs or has ended", customID, b.ID)
	}
	q, ok := chat.Request(task.Type(), task.Payload())
	if !ok {
		q = record.Request{Ref: ref, Line: batch.Line{CustomID: customID}}
	}
	if err = s.Batches.Finish(ctx, record.Failed(q, codeRequestCancelled, errRequestCancelled)); err != nil {
		return fmt.Errorf("request %q of batch %s was taken out of the queue, but that was not stored; "+
			"enqueue the file again to go on: %w", customID, b.ID, err)
	}
	return cli.Print(env.Out, asJSON, cancelled{Batch: b.ID, Withdrawn: 1},
		fmt.Sprintf("request %s of batch %s is cancelled", cli.Line(customID), b.ID))
}
