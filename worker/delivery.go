package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
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

	charges []reservations.Charge // none: the task is not limited
	start   start                 // of the charges; nil without
	turn    dispatcher.Turn       // what the task holds in the waitlists
	usage   usage

	lower func(reservations.Tokens) []reservations.Charge // of a running task, see Job.Lower

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

// start is the inside of a reservations.Grant: it starts the charges of a delivery in steps, and settles them.
type start interface {
	dispatcher.Start
	Begin(
		ctx context.Context, late time.Duration,
		each func(c reservations.Charge, again bool, ask func(context.Context) error) error,
	) (stopped int, err error)
	Ready() time.Time
	Keep(ctx context.Context) (kept context.Context, stop func())
	Lower(ctx context.Context, tokens reservations.Tokens) ([]reservations.Charge, error)
	Refuse(ctx context.Context, refusal *reservations.RetryAfterError) ([]reservations.Outcome, error)
	Answered(ctx context.Context) (reservations.Outcome, error)
	Settle(ctx context.Context, used reservations.Tokens) error
	Cancel(ctx context.Context) error
	GiveBack(ctx context.Context) error
}

// taken are the charges as they are now, with the shards that answered, and leases.
func (d *delivery) taken() []reservations.Charge {
	if d.start == nil {
		return d.charges
	}
	return d.start.Charges()
}

// charge is that of the task's provider; zero for an unlimited task.
func (d *delivery) charge() reservations.Charge {
	all := d.taken()
	if len(all) == 0 {
		return reservations.Charge{}
	}
	return all[len(all)-1]
}

// last is the last charge that has something.
func last(charges []reservations.Charge, has func(i int, c reservations.Charge) bool) (found reservations.Charge) {
	for i, c := range charges {
		if has(i, c) {
			found = c
		}
	}
	return found
}
