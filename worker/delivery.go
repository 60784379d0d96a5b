package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// delivery is one delivery of a task, from asynq's hands back into them.
type delivery struct {
	task      *asynq.Task
	id, queue string
	last      context.Context //nolint:containedctx // ends when asynq needs an answer, half a margin before its deadline

	retried  int // failures so far, as asynq counts: a worker that died while it had the task is one
	allowed  int // asynq's MaxRetry
	maxRetry int // ours; asynq's for a foreign task

	claims reservations.Claims // none: the task is not limited
	turn   engine.Turn         // what the task holds in the waitlists
	usage  usage

	expect func(reservations.Tokens) []reservations.Charge // of a running task, see Job.Expect

	settling sync.WaitGroup // open settlements

	traced           traced        // its span
	wait, hold, late time.Duration // of a task that started, see Start

	began    time.Time   // when the handler was started
	runs     atomic.Bool // began is set
	answered atomic.Bool // the goroutine that sets it answers asynq
	answers  chan error  // the answer to asynq; holds one
}

// known reads what asynq says of the task, whose delivery begins.
func (g *guard) known(ctx context.Context, d *delivery) *delivery {
	d.id, _ = asynq.GetTaskID(ctx)
	d.queue, _ = asynq.GetQueueName(ctx)
	d.retried, _ = asynq.GetRetryCount(ctx)
	d.allowed, _ = asynq.GetMaxRetry(ctx)
	d.maxRetry = envelope.MaxRetry(d.task, d.allowed)
	g.snoozes.Forget(d.queue, d.id)
	return d
}

func (d *delivery) handle() waitlist.Task { return waitlist.Task{Queue: d.queue, ID: d.id} }

func (d *delivery) ref() TaskRef {
	return TaskRef{ID: d.id, Queue: d.queue, Type: d.task.Type(), Attempt: d.retried + 1, MaxRetry: d.maxRetry}
}

// charge is that of the task's provider; zero for an unlimited task.
func (d *delivery) charge() reservations.Charge {
	if len(d.claims) == 0 {
		return reservations.Charge{}
	}
	return d.claims[len(d.claims)-1].Charge
}

// startID names this start of the task in the bucket of c.
func (d *delivery) startID(c reservations.Claim) string {
	return fmt.Sprintf("%s/%d/%d", d.id, d.retried+1, c.Decided.UnixNano())
}

// namesOf are the limits and the buckets of claims, as logs show them.
func namesOf(cs reservations.Claims) (limits, buckets string) {
	var l, b []string
	for _, c := range cs {
		l, b = append(l, c.Charge.Limit), append(b, c.Charge.Bucket())
	}
	return strings.Join(l, ","), strings.Join(b, ",")
}

// logTask logs an event of a delivery, with the attributes that identify the task.
func (g *guard) logTask(ctx context.Context, d *delivery, level slog.Level, message string, attrs ...slog.Attr) {
	if !g.log.Enabled(ctx, level) {
		return
	}
	if len(d.claims) > 0 {
		limits, buckets := namesOf(d.claims)
		attrs = append([]slog.Attr{slog.String("limit", limits), slog.String("bucket", buckets)}, attrs...)
	}
	g.write(ctx, d, level, message, attrs)
}

// logCharge is logTask for one charge of the task; zero if it has none.
func (g *guard) logCharge(
	ctx context.Context, d *delivery, c reservations.Charge, level slog.Level, message string, attrs ...slog.Attr,
) {
	if !g.log.Enabled(ctx, level) {
		return
	}
	if c.Limit != "" {
		attrs = append([]slog.Attr{slog.String("limit", c.Limit), slog.String("bucket", c.Bucket())}, attrs...)
	}
	g.write(ctx, d, level, message, attrs)
}

func (g *guard) write(ctx context.Context, d *delivery, level slog.Level, message string, attrs []slog.Attr) {
	task := []slog.Attr{
		slog.String("task_id", d.id), slog.String("type", d.task.Type()), slog.String("queue", d.queue),
		slog.Int("attempt", d.retried+1),
	}
	g.log.LogAttrs(ctx, level, message, append(task, attrs...)...)
}
