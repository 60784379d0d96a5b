package dispatcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// callerNet is how long a direct caller waits, and up to as long again, until it looks by itself whether it still
	// has its place. It finds a place that Redis lost, and a call that was lost despite being repeated.
	callerNet = 30 * time.Second
	// callerRetry is how soon it looks again where Redis does not answer.
	callerRetry = time.Second
)

// Enter gives a direct caller a place among the tasks of its buckets, by the same order: see Scheduler.TakeCallers.
func (c *callers) Enter(ctx context.Context, g *reservations.Grant) {
	start := inside.Of(g)
	p := &place{s: c.s, callers: c, number: c.number(), start: start}
	p.task = waitlist.Caller(c.process, p.number)
	if err := p.arrive(ctx); err != nil {
		c.s.log.DebugContext(ctx, "waitlists can't be read, a caller asks as a new one", slog.Any("error", err))
	}
	start.TakePlace(p)
}

// place is one direct caller.
type place struct {
	s       *Dispatcher
	callers *callers
	number  string
	task    waitlist.Task
	start   Start
	turn    Turn
	waits   bool // it has had a place in a waitlist
}

func (p *place) arrive(ctx context.Context) (err error) {
	p.turn, err = p.s.arrive(ctx, &p.s.calls, p.task, p.start.Charges())
	p.s.Claim(p.turn, p.start)
	return err
}

// Wait takes the place, or goes back to it, and returns when the caller is called.
func (p *place) Wait(ctx context.Context, stopped int, cause error) error {
	charge, outcome := p.start.Charges()[stopped], p.start.Outcomes()[stopped]
	called, ended, err := p.callers.listen(ctx, p.number) // before a call can come
	if err != nil {
		if cause == nil && charge.Held == "" {
			p.release(ctx, charge, outcome)
		}
		return err
	}
	next, stored := p.join(ctx, charge, outcome, cause)
	for {
		timer := time.NewTimer(next)
		select {
		case <-called:
		case <-timer.C:
		case <-ended:
			timer.Stop()
			return ErrStopped
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
		was := p.turn
		switch err := p.arrive(ctx); {
		case err != nil && stored:
			p.turn, next = was, callerRetry
		case p.turn.State == waitlist.StateWaiting:
			next = callerNet + rand.N(callerNet) //nolint:gosec // jitter needs no secrecy
		default:
			return nil
		}
	}
}

// Position returns the number of the caller in its waitlist, from 1, and about how long it waits yet. It is zero where
// its turn has come. Known is false where Redis does not say, or the caller is in no waitlist. It may be called
// beside Wait, and changes nothing.
func (p *place) Position(ctx context.Context) (number int, wait time.Duration, known bool) {
	at, err := p.s.list.Near(ctx, p.task)
	if err != nil || at.State == waitlist.StateNew {
		return 0, 0, false
	}
	start, known := Expect(at.List, at.TokensAhead, at.Tokens)
	if !known {
		return at.Rank, 0, false
	}
	if !start.IsZero() {
		wait = max(0, start.Sub(at.List.Now))
	}
	return at.Rank, wait, true
}

// KeepFor keeps the place for a while under the name of the call, for Resume. Leaves says that the caller leaves now.
// Otherwise the place counts once this process is dead. It may be called beside Wait.
func (p *place) KeepFor(ctx context.Context, call string, leaves bool, d time.Duration) error {
	return p.s.list.Keep(ctx, p.task, call, leaves, d)
}

// Resume takes the place that was kept for the call, if there is one. Call it before the first Wait.
func (p *place) Resume(ctx context.Context, call string) error {
	_, err := p.s.list.Resume(ctx, p.task, call)
	return err
}

// join joins the waitlist of the charge's bucket, and returns when the caller looks for its place by itself. Where
// Redis could not store the place, the caller gives back what it was promised, and asks again at RetryAt.
func (p *place) join(
	ctx context.Context, c reservations.Charge, o reservations.Outcome, cause error,
) (next time.Duration, stored bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AfterTimeout) // so that Leave comes after it
	defer cancel()
	stop := Stop{Charge: c, Cause: cause}
	if cause == nil {
		p.s.Answered(ctx, c.Bucket())
		stop.Outcome = o
	}
	deferred := p.s.Wait(ctx, p.task, p.turn, stop)
	p.waits = true
	if !deferred.unwatched {
		return callerNet + rand.N(callerNet), true //nolint:gosec // jitter needs no secrecy
	}
	p.release(ctx, c, o)
	return deferred.Delay + rand.N(callerRetry), false //nolint:gosec // as above
}

// release gives back what the bucket has just promised.
func (p *place) release(ctx context.Context, c reservations.Charge, o reservations.Outcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AfterTimeout)
	defer cancel()
	c.Held = o.State
	p.s.releaseOne(ctx, c)
}

// Begun says that the caller has started.
func (p *place) Begun() {
	p.callers.forget(p.number)
	p.s.Begun(p.task, p.turn, p.start)
	for _, c := range p.start.Charges() {
		p.s.Answered(context.Background(), c.Bucket())
	}
}

// Leave gives up the place and the reservations.
func (p *place) Leave(ctx context.Context) {
	p.callers.forget(p.number)
	if !p.waits {
		return
	}
	if err := p.s.Leave(ctx, p.task, p.start.Charges()); err != nil {
		p.s.log.DebugContext(ctx, "caller still in a waitlist", slog.Any("error", err))
	}
}
