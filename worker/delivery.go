package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// delivery is one delivery of a task, from asynq's hands back into them.
type delivery struct {
	task      *asynq.Task
	id, queue string

	retried  int  // failures so far, as asynq counts: a worker that died while it had the task is one
	allowed  int  // asynq's MaxRetry: it archives the task on any error once retried has reached it
	maxRetry int  // ours; asynq's for a foreign task
	ours     bool // the task carries our count

	charge  reservations.Charge
	limited bool
	place   reservations.Place // what the task came with
	outcome reservations.Outcome
	usage   usage

	settling sync.WaitGroup // settlements that are under way

	decided time.Time // when outcome was decided, on this machine's clock
}

func newDelivery(ctx context.Context, t *asynq.Task) *delivery {
	d := &delivery{task: t}
	d.id, _ = asynq.GetTaskID(ctx)
	d.queue, _ = asynq.GetQueueName(ctx)
	d.retried, _ = asynq.GetRetryCount(ctx)
	d.allowed, _ = asynq.GetMaxRetry(ctx)
	d.maxRetry, d.ours = tasks.MaxRetry(t)
	if !d.ours {
		d.maxRetry = d.allowed
	}
	return d
}

func (d *delivery) handle() scheduler.Task { return scheduler.Task{Queue: d.queue, ID: d.id} }

func (d *delivery) ref() TaskRef {
	return TaskRef{ID: d.id, Queue: d.queue, Type: d.task.Type(), Attempt: d.retried + 1, MaxRetry: d.maxRetry}
}

// tell logs what happens to a delivery, with what tells it from others. Most of it is at debug level and costs nothing elsewhere.
func (g *gate) tell(ctx context.Context, d *delivery, level slog.Level, message string, attrs ...slog.Attr) {
	if !g.log.Enabled(ctx, level) {
		return
	}
	who := []slog.Attr{
		slog.String("task_id", d.id), slog.String("type", d.task.Type()), slog.String("queue", d.queue), slog.Int("attempt", d.retried+1),
	}
	if d.limited {
		who = append(who, slog.String("limit", d.charge.Limit), slog.String("bucket", d.charge.Bucket()))
	}
	g.log.LogAttrs(ctx, level, message, append(who, attrs...)...)
}
