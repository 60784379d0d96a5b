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
	passed     *passed // nil: every task that charges prices has a limit

	settleTimeout time.Duration
	maxRefusals   int
	log           *slog.Logger
	events        Events
	dead          dead
	sweeper       *sweeper // nil without a graveyard

	outage   outage
	told     told
	clock    storeClock
	usual    usual
	lateMost time.Duration // see staleAfter
	pending  pending
	stopping chan struct{} // closed when the process is about to end: nobody is held any more
}

// errHeldUp is why a bucket is not asked: what the one before it has the task hold is not over, and it has to be let
// go.
var errHeldUp = errors.New("not started")

// prepared is a task that is known to be runnable, and how to run it.
type prepared func(context.Context) error

// process takes one delivery, and returns what asynq has to be told. Prepare does what can be done before anything is
// charged; its error means that the task can't run. All is done in a goroutine of its own, so that asynq gets its
// answer in time even from a handler that ignores its context.
func (g *gate) process(ctx context.Context, t *asynq.Task, prepare func(*delivery) (prepared, error)) error {
	d := &delivery{task: t, answers: make(chan error, 1)}
	go g.answer(ctx, d, func() error { return g.pass(ctx, d.known(ctx), prepare) })
	select {
	case err := <-d.answers:
		return err
	case <-ctx.Done(): // asynq has taken the task back, or is about to fail it
	}
	if d.runs.Load() {
		g.answer(ctx, d, func() error { return g.abandon(ctx, d) })
	}
	return <-d.answers
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
	if len(d.claims) > 0 {
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
	if err := tasks.CheckCharges(charges); err != nil {
		return tasks.Permanent(err)
	}
	d.claims = newClaims(charges)
	for _, c := range charges {
		if g.limiter == nil {
			return tasks.Permanent(&reservations.ChargeError{
				Charge: c, Err: reservations.ErrUnknownLimit, Problem: "this worker has no limits",
			})
		}
		if err := g.limiter.Validate(c); err != nil {
			return tasks.Permanent(err)
		}
	}
	return nil
}

// refuse ends a delivery whose task can't run. What is permanent is archived, anything else is a failure like any
// other.
func (g *gate) refuse(ctx context.Context, d *delivery, err error) error {
	err = d.verdict(err)
	if d.archives(err) {
		if dropped := g.way.Drop(ctx, d.handle(), d.turn); dropped != nil {
			g.tell(ctx, d, slog.LevelDebug, "refused task still in a waitlist", slog.Any("error", dropped))
		}
		g.tell(ctx, d, slog.LevelError, "task refused and archived", slog.Any("error", err))
		hook(g.log, g.events.OnRefuse, Refusal{Task: d.ref(), Err: err, Payload: d.task.Payload()})
		g.keepRecord(ctx, d, ResultArchived, CauseRefused, err, 0)
		return err
	}
	g.tell(ctx, d, slog.LevelWarn, "task can't be priced, will be retried", slog.Any("error", err))
	g.keepRecord(ctx, d, ResultFailed, "", err, 0)
	return err
}

// begin asks whether the task may start, and returns when it may. Otherwise the error is what asynq gets: why the task
// waits or can't run, or nil where a successor waits for it. Early ends before asynq gives the task up.
//
// A task that was delivered while it waits, and was not promoted, goes back without asking. The buckets are asked one
// after the other. The one that refuses keeps the task in its waitlist; what the others granted is given back, so no
// task holds what another waits for.
func (g *gate) begin(ctx, early context.Context, d *delivery) (starts bool, err error) {
	turn, err := g.way.Arrive(early, d.handle(), d.claims.charges())
	if err != nil {
		g.tell(ctx, d, slog.LevelDebug, "waitlists can't be read, the task asks as a new one", slog.Any("error", err))
	}
	d.turn = turn
	d.claims.arrived(turn)
	if turn.Status == scheduler.StatusWaiting {
		at := reservations.ParseBucket(turn.Bucket)
		return false, g.comeBack(ctx, d, at, reservations.Outcome{}, 0, func(context.Context, scheduler.Task) error {
			return g.way.Return(turn)
		})
	}
	for asked := 1; ; asked++ {
		if starts, err := g.admit(ctx, early, d); !starts {
			return false, err
		}
		late := time.Since(d.claims.ready())
		if !g.usual.of(d.claims.provider()).stale(time.Now(), late, g.lateMost) || asked == askMost {
			break
		}
		if !d.claims.lose(g.lasts) {
			break
		}
		g.tell(ctx, d, slog.LevelDebug, "task came too late to start, asks again", slog.Duration("late", late))
	}
	g.way.Begun(d.handle(), turn, d.claims.answers()...)
	return true, nil
}

// admit asks the buckets, and returns when the task may start; see begin.
func (g *gate) admit(ctx, early context.Context, d *delivery) (starts bool, err error) {
	stopped, err := d.claims.admit(func(c *claim) error {
		if !g.hold(early, d) {
			return errHeldUp
		}
		return g.ask(ctx, early, c)
	})
	switch {
	case errors.Is(err, errHeldUp):
		return false, g.letGo(ctx, d)
	case reservations.IsPermanent(err):
		g.giveBack(ctx, d)
		return false, g.refuse(ctx, d, tasks.Permanent(err))
	case err != nil && ctx.Err() != nil: // asynq has taken the task back
		g.giveBack(ctx, d)
		return false, ctx.Err()
	case err != nil:
		g.giveBack(ctx, d)
		return false, g.unavailable(ctx, d, stopped, err)
	case stopped != nil:
		g.sortBehind(d, stopped) //nolint:contextcheck // goes on after the delivery
		g.giveBack(ctx, d)
		return false, g.sendBack(ctx, d, stopped, stopped.outcome)
	}
	if !g.hold(early, d) {
		return false, g.letGo(ctx, d)
	}
	return true, nil
}

// ask asks one bucket. A new task does not ask one that alone could not be asked a moment ago.
func (g *gate) ask(ctx, early context.Context, c *claim) error {
	bucket := c.charge.Bucket()
	if c.held == nil {
		if err := g.way.Faulty(bucket); err != nil {
			return err
		}
	}
	if err := g.outage.admit(early); err != nil {
		return err
	}
	asked := time.Now()
	o, err := g.start(early, c)
	came := time.Now()
	if err = g.learn(ctx, bucket, err); err != nil {
		return err
	}
	c.outcome, c.charge.Shard = o, o.Shard
	c.decided, c.latest = g.clock.moment(asked, came, o.At)
	return nil
}

// learn notes what the error of a bucket, or nil, says of the store, and returns it. A bucket that alone can't be asked
// shows that the store answers.
func (g *gate) learn(ctx context.Context, bucket string, err error) error {
	alone := errors.Is(err, reservations.ErrBucket)
	switch {
	case err != nil && (reservations.IsPermanent(err) || ctx.Err() != nil && !alone):
		g.outage.pass()
	case err != nil && !alone:
		if g.outage.report(err) {
			g.log.LogAttrs(ctx, slog.LevelWarn, "the store of the buckets does not answer, tasks with a limit wait for it",
				slog.Any("error", err))
		}
	default:
		if g.outage.report(nil) {
			g.log.LogAttrs(ctx, slog.LevelInfo, "the store of the buckets answers again")
			g.way.Recovered(ctx)
		}
		if !alone {
			g.way.Answered(ctx, bucket)
		}
	}
	return err
}

// start asks for the task: one that is new and has others before it only reserves.
func (g *gate) start(ctx context.Context, c *claim) (reservations.Outcome, error) {
	if c.behind && !g.express(c.charge) {
		return g.limiter.Reserve(ctx, c.charge)
	}
	return g.limiter.Start(ctx, c.charge, c.held)
}

// express says whether the charge may start before ordinary tasks that wait.
func (g *gate) express(c reservations.Charge) bool {
	limit, err := g.limiter.Limits().For(c.Limit, c.Key)
	return err == nil && c.Urgent && limit.HasHeadroom()
}

// sendBack lets the task wait for the bucket of c.
func (g *gate) sendBack(ctx context.Context, d *delivery, c *claim, o reservations.Outcome) error {
	return g.comeBack(ctx, d, c.charge, o, o.Wait(), func(ctx context.Context, t scheduler.Task) error {
		return g.way.Wait(ctx, t, d.turn, c.charge, o)
	})
}

// unavailable lets the task wait for the bucket of c, which did not answer.
func (g *gate) unavailable(ctx context.Context, d *delivery, c *claim, cause error) error {
	return g.comeBack(ctx, d, c.charge, reservations.Outcome{}, 0, func(ctx context.Context, t scheduler.Task) error {
		return g.way.WaitStore(ctx, t, d.turn, c.charge, cause)
	})
}

// comeBack returns the deferral that wait made. It uses no retry; on the last delivery that asynq grants, a successor
// takes the task's place. C is the charge that it waits for, delay about how long it waits.
func (g *gate) comeBack(
	ctx context.Context, d *delivery, c reservations.Charge, o reservations.Outcome, delay time.Duration,
	wait func(context.Context, scheduler.Task) error,
) error {
	last, cancel := ahead(ctx, halfMargin)
	defer cancel()
	waits := d.handle()
	if d.lastDelivery() {
		id, err := g.succeed(last, d, delay)
		if err != nil {
			return err
		}
		waits.ID = id
	}
	err := wait(last, waits)
	event := Deferral{Task: d.ref(), Charge: c, Outcome: o, Err: err}
	if deferred, ok := errors.AsType[*scheduler.DeferredError](err); ok {
		event.Until = deferred.Until
	}
	g.tellOf(ctx, d, c, slog.LevelDebug, "task waits",
		slog.String("state", string(o.State)), slog.Time("until", event.Until), slog.Any("reason", err))
	hook(g.log, g.events.OnDefer, event)
	if waits.ID != d.id {
		return nil // ends the original
	}
	return err
}

// hold waits locally for the little that is missing. False means that the process stops, or that asynq wants the task
// back.
func (g *gate) hold(early context.Context, d *delivery) bool {
	missing := time.Until(d.claims.ready())
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

// letGo gives back what was taken for a task that does not start after all. It goes back to its place, or waits before
// all others.
func (g *gate) letGo(ctx context.Context, d *delivery) error {
	started := d.claims.started()
	g.giveBack(ctx, d)
	if ctx.Err() != nil {
		return ctx.Err() // asynq has taken the task back
	}
	last := started[len(started)-1]
	return g.comeBack(ctx, d, last.charge, last.outcome, 0, func(ctx context.Context, t scheduler.Task) error {
		return g.way.WaitFirst(ctx, t, d.turn, last.charge)
	})
}
