package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// gate is the middleware: every delivery passes it from top to bottom. Worker and Limits both stand on it.
type gate struct {
	limiter    *reservations.Limiter // nil: no limit is known here
	way        *scheduler.Scheduler
	successors successors
	charges    func(*asynq.Task) ([]reservations.Charge, error)

	settleTimeout time.Duration
	maxRefusals   int
	log           *slog.Logger
	events        Events
	lateness      *Lateness

	outage   outage
	told     told
	clock    storeClock
	pending  pending
	stopping chan struct{} // closed when the process is about to end: nobody is held any more
}

// prepared is a task that is known to be runnable, and how to run it.
type prepared func(context.Context) error

// process takes one delivery. Prepare does what can be done before anything is charged; its error means that the task can't run.
func (g *gate) process(ctx context.Context, t *asynq.Task, prepare func(*delivery) (prepared, error)) error {
	return legible(g.pass(ctx, newDelivery(ctx, t), prepare))
}

func (g *gate) pass(ctx context.Context, d *delivery, prepare func(*delivery) (prepared, error)) error {
	var run prepared
	err := g.contained(ctx, d, func(context.Context) (err error) {
		if run, err = prepare(d); err == nil {
			err = g.price(d)
		}
		return err
	})
	if err != nil {
		return g.refuse(ctx, d, err)
	}
	early, cancel := ahead(ctx, wholeMargin)
	defer cancel()
	if d.limited {
		if starts, err := g.begin(ctx, early, d); !starts {
			return err
		}
	}
	return g.run(ctx, early, d, run)
}

// price finds out what the task takes, and that it can be served at all.
func (g *gate) price(d *delivery) error {
	charges, err := g.charges(d.task)
	if err != nil || len(charges) == 0 {
		return err
	}
	if len(charges) > 1 {
		return tasks.Permanent(tasks.ErrTooManyCharges)
	}
	d.charge, d.limited = charges[0], true
	if g.limiter == nil {
		return tasks.Permanent(&reservations.ChargeError{Charge: d.charge, Err: reservations.ErrUnknownLimit, Problem: "this worker has no limits"})
	}
	return tasks.Permanent(g.limiter.Validate(d.charge))
}

// refuse ends a delivery whose task can't run. What is permanent is archived, anything else is a failure like any other.
func (g *gate) refuse(ctx context.Context, d *delivery, err error) error {
	if _, recall := g.way.Recall(ctx, d.handle()); recall != nil { // whoever leaves a place behind is woken once more
		g.tell(ctx, d, slog.LevelDebug, "place not given up", slog.Any("error", recall))
	}
	err = d.verdict(err)
	if d.archives(err) {
		g.tell(ctx, d, slog.LevelError, "task refused and archived", slog.Any("error", err))
		hook(g.log, g.events.OnRefuse, Refusal{Task: d.ref(), Err: err})
		return err
	}
	g.tell(ctx, d, slog.LevelWarn, "task can't be priced, will be retried", slog.Any("error", err))
	return err
}

// begin asks whether the task may start, and returns when it may. Otherwise the error is what asynq has to be told: why the
// task waits or can't run, or nil where a successor waits for it. Early ends before asynq gives the task up.
func (g *gate) begin(ctx, early context.Context, d *delivery) (starts bool, err error) {
	if d.place, err = g.way.Recall(early, d.handle()); err != nil {
		g.tell(ctx, d, slog.LevelDebug, "place not recalled, asking as new", slog.Any("error", err))
	}
	if err = g.outage.admit(early); err != nil {
		return false, g.unavailable(ctx, d, err)
	}
	asked := time.Now()
	d.outcome, err = g.limiter.Begin(early, d.charge, d.place)
	came := time.Now()
	switch {
	case err == nil:
		if g.outage.report(nil) {
			g.way.Answered()
		}
	case reservations.IsPermanent(err):
		g.outage.pass()
		return false, g.refuse(ctx, d, tasks.Permanent(err))
	case ctx.Err() != nil: // asynq has taken the task back
		g.outage.pass()
		return false, ctx.Err()
	default:
		g.outage.report(err)
		return false, g.unavailable(ctx, d, err)
	}
	d.charge.Shard = d.outcome.Shard
	d.decided = g.clock.moment(asked, came, d.outcome.At)
	g.lateness.Observe(d.charge.Bucket(), d.outcome)
	if !d.outcome.Started() {
		return false, g.sendBack(ctx, d, d.outcome)
	}
	if !g.hold(early, d) {
		return false, g.letGo(ctx, d)
	}
	if d.stale(time.Now()) {
		return false, g.sendBack(ctx, d, d.unused())
	}
	return true, nil
}

// sendBack lets the task wait for the time it was given.
func (g *gate) sendBack(ctx context.Context, d *delivery, o reservations.Outcome) error {
	return g.comeBack(ctx, d, o, o.Wait(), func(ctx context.Context, t scheduler.Task) error {
		return g.way.Defer(ctx, t, d.charge, o)
	})
}

// unavailable lets the task wait for the store.
func (g *gate) unavailable(ctx context.Context, d *delivery, cause error) error {
	return g.comeBack(ctx, d, reservations.Outcome{}, 0, func(ctx context.Context, t scheduler.Task) error {
		return g.way.DeferOutage(ctx, t, d.charge, d.place, cause)
	})
}

// comeBack returns the deferral that record wrote down. It uses no retry; on the last delivery that asynq grants, a
// successor takes the task's place, for about so long a wait.
func (g *gate) comeBack(
	ctx context.Context, d *delivery, o reservations.Outcome, wait time.Duration, record func(context.Context, scheduler.Task) error,
) error {
	last, cancel := ahead(ctx, halfMargin)
	defer cancel()
	waits := d.handle()
	if d.lastDelivery() {
		id, err := g.succeed(last, d, wait)
		if err != nil {
			return err
		}
		waits.ID = id
	}
	err := record(last, waits)
	event := Deferral{Task: d.ref(), Charge: d.charge, Outcome: o, Err: err}
	if deferred, ok := errors.AsType[*scheduler.DeferredError](err); ok {
		event.Until = deferred.Until
	}
	g.tell(ctx, d, slog.LevelDebug, "task waits",
		slog.String("state", string(o.State)), slog.Time("until", event.Until), slog.Any("reason", err))
	hook(g.log, g.events.OnDefer, event)
	if waits.ID != d.id {
		return nil // ends the original
	}
	return err
}

// hold waits locally for the little that is missing. False means that the process stops, or that asynq wants the task back.
func (g *gate) hold(early context.Context, d *delivery) bool {
	missing := time.Until(d.decided.Add(d.outcome.Hold))
	if missing <= 0 {
		return true
	}
	timer := time.NewTimer(missing)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.stopping:
	case <-early.Done():
	}
	return false
}

// letGo gives back what was taken for a task that does not start after all. It comes back as the first of its line.
func (g *gate) letGo(ctx context.Context, d *delivery) error {
	g.settle(ctx, d, d.nothing())
	if ctx.Err() != nil {
		return ctx.Err() // asynq has taken the task back
	}
	return g.sendBack(ctx, d, d.unused())
}
