package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// guard is the middleware that every delivery passes. Worker and Limits both use it.
type guard struct {
	client    redis.UniversalClient
	limiter   *reservations.Limiter // nil: no limit is known here
	scheduler *scheduler.Scheduler
	engine    *engine.Engine
	inspector *asynq.Inspector
	charges   func(*asynq.Task) ([]reservations.Charge, error)

	settleTimeout time.Duration
	maxRefusals   int
	unserved      time.Duration // zero: tasks that no worker can serve wait on
	log           *slog.Logger
	events        []func(Event)
	trace         tracing
	dead          deadletter.Store // the records of dead tasks; nil: none are kept
	sweeper       *sweeper         // nil without them
	fleet         *fleet
	follow        *follower // nil without a limiter

	snoozes    asynqdb.Snoozes // the deliveries that end with a wait
	corrected  corrections
	lateMost   time.Duration // see reservations.LateMost
	goroutines goroutines    // of deliveries
	deliveries atomic.Int64  // that asynq waits for
	pending    pending
	stopping   context.Context //nolint:containedctx // ends when the process is about to end: no task is held any more
	cancel     context.CancelFunc
}

// prepared is a task that is known to be runnable, and how to run it.
type prepared func(context.Context) error

// process handles one delivery, and returns its result for asynq. Prepare runs before any bucket is charged; its
// error means that the task can't run. A goroutine of its own runs the handler, so that asynq gets an answer in time
// even if the handler ignores its context.
func (g *guard) process(ctx context.Context, t *asynq.Task, prepare func(*delivery) (prepared, error)) error {
	g.deliveries.Add(1)
	defer g.deliveries.Add(-1)
	last, cancel := ahead(ctx, halfMargin)
	defer cancel()
	d := &delivery{task: t, last: last, answers: make(chan error, 1)}
	g.goroutines.run(func() {
		g.answer(ctx, d, func() error { return g.pass(g.trace.begin(ctx, g.known(ctx, d)), d, prepare) })
	})
	defer func() { g.trace.end(ctx, d) }()
	select {
	case err := <-d.answers:
		return err
	case <-last.Done(): // asynq has taken the task back, or is about to fail it
	}
	if d.runs.Load() { // else run gives it up
		g.giveUp(ctx, d)
	}
	return <-d.answers
}

func (g *guard) pass(ctx context.Context, d *delivery, prepare func(*delivery) (prepared, error)) error {
	var run prepared
	err := g.contained(ctx, d, func(ctx context.Context) (err error) {
		if run, err = prepare(d); err == nil {
			err = g.price(ctx, d)
		}
		return err
	})
	if err != nil {
		return g.unable(ctx, d, err)
	}
	early, cancel := ahead(ctx, wholeMargin)
	defer cancel()
	if wait := time.Until(envelope.At(d.task)); wait > 0 { // woken a little before its time, as promoted tasks are
		_ = pause.For(early, min(wait, bucket.Hold)) // longer only if the clocks differ, or a person ran the task
	}
	if expired := envelope.CheckStart(d.task, time.Now()); expired != nil {
		return g.refuse(ctx, d, expired)
	}
	if len(d.claims) > 0 {
		if starts, err := g.begin(ctx, early, d); !starts {
			return err
		}
	}
	return g.run(ctx, early, d, run)
}

// free returns how many tasks the process can take at once.
func (g *guard) free(concurrency int) int { return concurrency - int(g.deliveries.Load()) }

// price sets the charges of the task, and checks that they can be served.
func (g *guard) price(ctx context.Context, d *delivery) error {
	charges, err := g.charges(d.task)
	if err != nil {
		return err
	}
	if len(charges) == 0 {
		return nil
	}
	if err := envelope.CheckCharges(charges); err != nil {
		return tasks.Permanent(err)
	}
	checked := g.limiter != nil && envelope.Checked(d.task)
	for i, c := range charges {
		c.Shard, c.Held = 0, "" // the waitlists say
		if checked {
			c = g.engine.Whole(ctx, c)
		}
		charges[i] = c
		d.claims = append(d.claims, &reservations.Claim{Charge: c})
	}
	for _, c := range charges {
		if g.limiter == nil {
			return tasks.Permanent(&reservations.ChargeError{
				Charge: c, Err: reservations.ErrUnknownLimit, Problem: "this worker has no limits",
			})
		}
		if err := g.engine.Servable(c); err != nil {
			return tasks.Permanent(err)
		}
	}
	return nil
}

// refuse ends a delivery whose task can't run. What is permanent is archived, anything else is a failure like any
// other.
func (g *guard) refuse(ctx context.Context, d *delivery, err error) error {
	err = d.verdict(err)
	kind, level, message := KindFailed, slog.LevelWarn, "task can't be priced, will be retried"
	var cause deadletter.Cause
	if d.archives(err) {
		if dropped := g.engine.Leave(ctx, d.handle(), d.claims.Charges()); dropped != nil {
			g.logTask(ctx, d, slog.LevelDebug, "refused task still in a waitlist", slog.Any("error", dropped))
		}
		if cause = deadletter.CauseRefused; errors.Is(err, tasks.ErrExpired) {
			cause = deadletter.CauseExpired
		}
		kind, level, message = KindArchived, slog.LevelError, "task "+string(cause)+" and archived"
		g.emit(Event{Kind: KindRejected, Task: d.ref(), Err: err, Payload: d.task.Payload()})
	}
	g.logTask(ctx, d, level, message, slog.Any("error", err))
	d.traceEnd(kind, nil, err)
	g.keepRecord(ctx, d, kind, cause, err, 0)
	return err
}

// begin asks whether the task may start, and returns when it may. Otherwise the error for asynq says why the task
// waits or can't run. Early ends before asynq gives the task up.
//
// A task that was delivered while it waits, and was not promoted, goes back without asking. The buckets are asked one
// after the other. The one that refuses keeps the task in its waitlist; what the others granted is cancelled, so no
// task holds tokens that another waits for.
func (g *guard) begin(ctx, early context.Context, d *delivery) (starts bool, err error) {
	turn, err := g.engine.Arrive(early, d.handle(), d.claims.Charges())
	if err != nil {
		g.logTask(ctx, d, slog.LevelDebug, "waitlists can't be read, the task asks as a new one", slog.Any("error", err))
	}
	d.turn = turn
	g.engine.Claim(early, turn, d.claims)
	if turn.State == waitlist.StateWaiting {
		kept := engine.Stop{Charge: reservations.ParseBucket(turn.Bucket), After: turn.Left(), Kept: true}
		return false, g.deferTask(ctx, d, kept)
	}
	holding, cut := context.WithCancel(early)
	defer cut()
	defer context.AfterFunc(g.stopping, cut)() //nolint:contextcheck // ends the hold alone
	var fault error                            // of a bucket
	stopped, err := g.limiter.Begin(holding, d.claims, g.lateMost,
		func(c *reservations.Claim, ask func(context.Context) error) error {
			if !c.Decided.IsZero() {
				g.logTask(ctx, d, slog.LevelDebug, "task came too late to start, asks again")
			}
			fault = g.engine.Ask(ctx, early, c.Charge, ask)
			return fault
		})
	if stopped == nil {
		g.engine.Begun(d.handle(), turn, d.claims)
		return true, nil
	}
	g.giveBack(ctx, d)
	stop := engine.Stop{Charge: stopped.Charge}
	switch {
	case reservations.IsPermanent(err):
		return false, g.unable(ctx, d, tasks.Permanent(err))
	case err != nil && ctx.Err() != nil: // asynq has taken the task back
		return false, ctx.Err()
	case err != nil && fault == nil: // its hold was cut short: it goes back to its place, or waits before all others
		started := d.claims.Started()
		stop = engine.Stop{Charge: started[len(started)-1].Charge, First: true}
	case err != nil:
		stop.Cause = err
	default:
		stop.Outcome = stopped.Outcome
	}
	return false, g.deferTask(ctx, d, stop)
}

// deferTask sends a task back that does not run now, and returns the answer for asynq. It uses no retry, also on the
// last attempt.
func (g *guard) deferTask(ctx context.Context, d *delivery, stop engine.Stop) error {
	last, cancel := ahead(ctx, halfMargin)
	defer cancel()
	if expired := envelope.CheckStart(d.task, time.Now()); expired != nil {
		return g.refuse(ctx, d, expired)
	}
	deferred := g.engine.Wait(last, d.handle(), d.turn, stop)
	g.snoozes.Add(d.queue, d.id, deferred.Snooze(d.task))
	event := Event{
		Kind: KindDeferred, Task: d.ref(), Charge: stop.Charge, Outcome: stop.Outcome, Err: deferred, Until: deferred.Until,
	}
	g.logCharge(ctx, d, stop.Charge, slog.LevelDebug, "task waits",
		slog.String("state", string(deferred.State)), slog.Time("until", deferred.Until), slog.Any("reason", deferred))
	if left := stop.Outcome.Bucket.Forgotten(); left > 0 && g.fleet.first("forgotten "+stop.Charge.Bucket(), warnEvery) {
		g.logCharge(ctx, d, stop.Charge, slog.LevelWarn, "redis is new or lost its data: calls in flight of before may "+
			"still run, so that nothing of the limit starts until they have ended", slog.Duration("left", left))
	}
	d.traceDeferral(event)
	g.emit(event)
	return deferred
}
