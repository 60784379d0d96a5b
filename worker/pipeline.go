package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// A delivery passes the functions of this file from top to bottom. File ends.go has the ways in which it ends.

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

// pass prepares the task, asks whether it may start, and runs it. A task that can't run, or that waits, goes back.
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
	if d.start != nil {
		if starts, err := g.begin(ctx, early, d); !starts {
			return err
		}
	}
	return g.run(ctx, early, d, run)
}

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
	for _, c := range charges {
		c.Shard, c.Held = 0, "" // the waitlists say
		if checked {
			c = g.dispatcher.Whole(ctx, c)
		}
		d.charges = append(d.charges, c)
	}
	for _, c := range d.charges {
		if g.limiter == nil {
			return tasks.Permanent(&reservations.ChargeError{
				Charge: c, Err: reservations.ErrUnknownLimit, Problem: "this worker has no limits",
			})
		}
		if err := g.dispatcher.Servable(c); err != nil {
			return tasks.Permanent(err)
		}
	}
	d.start = g.settler.start(d)
	return nil
}

// begin asks whether the task may start, and returns when it may. Otherwise the error for asynq says why the task
// waits or can't run. Early ends before asynq gives the task up.
//
// A task that was delivered while it waits, and was not promoted, goes back without asking. The buckets are asked one
// after the other. The one that refuses keeps the task in its waitlist; what the others granted is cancelled, so no
// task holds tokens that another waits for.
func (g *guard) begin(ctx, early context.Context, d *delivery) (starts bool, err error) {
	turn, err := g.dispatcher.Arrive(early, d.handle(), d.start.Charges())
	if err != nil {
		g.logTask(ctx, d, slog.LevelDebug, "waitlists can't be read, the task asks as a new one", slog.Any("error", err))
	}
	d.turn = turn
	g.dispatcher.Claim(turn, d.start)
	if turn.State == waitlist.StateWaiting {
		kept := dispatcher.Stop{Charge: dispatcher.ChargeOf(turn.At), After: turn.Left(), Kept: true}
		return false, g.deferTask(ctx, d, kept)
	}
	holding, cut := context.WithCancel(early)
	defer cut()
	defer context.AfterFunc(g.stopping, cut)() //nolint:contextcheck // ends the hold alone
	var fault error                            // of a bucket
	stopped, err := d.start.Begin(holding, bucket.LateMost,
		func(c reservations.Charge, again bool, ask func(context.Context) error) error {
			if again {
				g.logTask(ctx, d, slog.LevelDebug, "task came too late to start, asks again")
			}
			fault = g.dispatcher.Ask(ctx, early, c, ask)
			return fault
		})
	if stopped < 0 {
		g.dispatcher.Begun(d.handle(), turn, d.start)
		return true, nil
	}
	outcomes := d.start.Outcomes()
	_ = d.start.GiveBack(ctx)
	stop := dispatcher.Stop{Charge: d.start.Charges()[stopped]}
	switch {
	case reservations.IsPermanent(err):
		return false, g.unable(ctx, d, tasks.Permanent(err))
	case err != nil && ctx.Err() != nil: // asynq has taken the task back
		return false, ctx.Err()
	case err != nil && fault == nil: // its hold was cut short: it goes back to its place, or waits before all others
		started := func(i int, _ reservations.Charge) bool { return outcomes[i].Started() }
		stop = dispatcher.Stop{Charge: last(d.start.Charges(), started), First: true}
	case err != nil:
		stop.Cause = err
	default:
		stop.Outcome = outcomes[stopped]
	}
	return false, g.deferTask(ctx, d, stop)
}

// run calls the handler, and returns the result for asynq; errAnswered if asynq has one.
func (g *guard) run(ctx, early context.Context, d *delivery, handle prepared) error {
	g.announce(ctx, d)
	d.turn = dispatcher.Turn{Charges: d.turn.Charges} // it has left the waitlists
	ended := g.pending.add(kindHandler, d.id)         // before the delivery can be answered
	d.began = time.Now()
	if d.runs.Store(true); d.last.Err() != nil {
		g.giveUp(ctx, d)
	}
	e := g.handled(ctx, early, d, handle, ended)
	if !d.answered.CompareAndSwap(false, true) {
		return errAnswered
	}
	elapsed := time.Since(d.began)
	elsewhere, left := errors.AsType[*dispatcher.DeferredError](e.err)
	switch {
	case ctx.Err() != nil: // asynq has taken the task back
	case e.lost != nil:
		const text = "task lost its lease of a call in flight, will be delivered again"
		g.finish(ctx, d, KindAborted, e.lost, elapsed, slog.LevelWarn, text)
		leased := func(_ int, c reservations.Charge) bool { return c.Lease != 0 }
		return g.deferTask(ctx, d, dispatcher.Stop{Charge: last(d.taken(), leased), First: true})
	case e.refusal != nil && g.refusals.forgives(ctx, d, e):
		return g.deferRefused(ctx, d, e, elapsed)
	case left:
		g.logReturned(ctx, d, g.lacks(ctx, d, e.err), elsewhere)
		g.finish(ctx, d, KindAborted, e.err, elapsed, slog.LevelDebug, "task left to another worker")
		return g.deferTask(ctx, d, dispatcher.Stop{Missing: elsewhere.Missing, After: elsewhere.Delay})
	}
	return g.conclude(ctx, d, e.err, elapsed)
}

// handled runs the handler. Charges are settled when the handler returns, which may be after asynq got an answer;
// then ended is called.
func (g *guard) handled(ctx, early context.Context, d *delivery, handle prepared, ended func()) ending {
	defer ended()
	kept, stop := early, func() {}
	if d.start != nil {
		d.lower = func(tokens reservations.Tokens) []reservations.Charge {
			charges, _ := d.start.Lower(ctx, tokens)
			return charges
		}
		kept, stop = d.start.Keep(early)
	}
	err := g.contained(context.WithValue(kept, usageKey{}, &d.usage), d, handle)
	lost := context.Cause(kept)
	stop()
	e := g.refusals.end(ctx, d, err)
	final := err == nil || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask)
	if errors.Is(lost, reservations.ErrLeaseLost) && !final {
		e.lost = lost
	}
	g.settler.settle(ctx, d, e.err) // after the block: what is given back is there when it ends
	g.settler.observe(ctx, d, e)
	return e
}

// announce reports that the handler is about to run.
func (g *guard) announce(ctx context.Context, d *delivery) {
	s := Event{Kind: KindStarted, Task: d.ref(), Charges: d.taken()}
	if d.start != nil {
		outcomes := d.start.Outcomes()
		s.Outcome, s.Lateness = outcomes[len(outcomes)-1], time.Since(d.start.Ready())
		s.Waited = d.turn.State == waitlist.StatePromoted
		d.hold, d.late = s.Outcome.Hold, s.Lateness
		if since := d.turn.Since(); !since.IsZero() {
			d.wait = time.Since(since)
		}
	}
	g.trace.started(d)
	g.logTask(ctx, d, slog.LevelDebug, "task starts", slog.Duration("lateness", s.Lateness), slog.Bool("waited", s.Waited),
		slog.Duration("hold", s.Outcome.Hold), slog.Time("granted_at", s.Outcome.At)) // by the bucket's clock
	g.emit(s)
}

// contained runs the handler and makes a panic an error, logged with its stack here and nowhere else.
func (g *guard) contained(ctx context.Context, d *delivery, handle prepared) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := &PanicError{Value: value, Stack: string(debug.Stack())}
			g.logTask(ctx, d, slog.LevelError, "handler panicked", slog.Any("error", p), slog.String("stack", p.Stack))
			err = p
		}
	}()
	return handle(ctx)
}
