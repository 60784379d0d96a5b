package engine

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// callerNet is how long a direct caller waits, and up to as long again, until it looks by itself whether it still
	// has its place. It finds a place that Redis lost, and a call that was lost despite being repeated.
	callerNet = 30 * time.Second
	// callerRetry is how soon it looks again where Redis does not answer.
	callerRetry = time.Second
)

// Enter gives a direct caller a place among the tasks of its buckets, by the same order; see Scheduler.Enter.
func (s *Engine) Enter(ctx context.Context, claims reservations.Claims) reservations.Place {
	p := &place{s: s, number: s.callers.number(), claims: claims}
	p.task = waitlist.Caller(s.callers.process, p.number)
	if err := p.arrive(ctx); err != nil {
		s.log.DebugContext(ctx, "waitlists can't be read, a caller asks as a new one", slog.Any("error", err))
	}
	return p
}

// place is one direct caller.
type place struct {
	s      *Engine
	number string
	task   waitlist.Task
	claims reservations.Claims
	turn   Turn
	waits  bool // it has had a place in a waitlist
}

func (p *place) arrive(ctx context.Context) (err error) {
	p.turn, err = p.s.Arrive(ctx, p.task, p.claims.Charges())
	p.s.Claim(ctx, p.turn, p.claims)
	return err
}

// Wait takes the place, or goes back to it, and returns when the caller is called.
func (p *place) Wait(ctx context.Context, stopped *reservations.Claim, cause error) error {
	called, ended, err := p.s.callers.listen(ctx, p.number) // before a call can come
	if err != nil {
		if cause == nil && stopped.Charge.Held == "" {
			p.release(ctx, stopped)
		}
		return err
	}
	next, stored := p.join(ctx, stopped, cause)
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

// join joins the waitlist of the claim's bucket, and returns when the caller looks for its place by itself. Where Redis
// could not store the place, the caller gives back what it was promised, and asks again at RetryAt.
func (p *place) join(
	ctx context.Context, stopped *reservations.Claim, cause error,
) (next time.Duration, stored bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AfterTimeout) // so that Leave comes after it
	defer cancel()
	stop := Stop{Charge: stopped.Charge, Cause: cause}
	if cause == nil {
		p.s.Answered(ctx, stopped.Charge.Bucket())
		stop.Outcome = stopped.Outcome
	}
	deferred := p.s.Wait(ctx, p.task, p.turn, stop)
	p.waits = true
	if !deferred.unwatched {
		return callerNet + rand.N(callerNet), true //nolint:gosec // jitter needs no secrecy
	}
	p.release(ctx, stopped)
	return deferred.Delay + rand.N(callerRetry), false //nolint:gosec // as above
}

// release gives back what the bucket has just promised.
func (p *place) release(ctx context.Context, stopped *reservations.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AfterTimeout)
	defer cancel()
	c := stopped.Charge
	c.Held = stopped.Outcome.State
	p.s.releaseOne(ctx, c)
}

// Begun says that the caller has started.
func (p *place) Begun() {
	p.s.callers.forget(p.number)
	p.s.Begun(p.task, p.turn, p.claims)
	for _, c := range p.claims {
		p.s.Answered(context.Background(), c.Charge.Bucket())
	}
}

// Leave gives up the place and the reservations.
func (p *place) Leave(ctx context.Context) {
	p.s.callers.forget(p.number)
	if !p.waits {
		return
	}
	if err := p.s.Leave(ctx, p.task, p.claims.Charges()); err != nil {
		p.s.log.DebugContext(ctx, "caller still in a waitlist", slog.Any("error", err))
	}
}

// dropDead takes the callers of dead processes out of what is planned, and has them leave in the background, with their
// reservations.
func (d *dispatcher) dropDead(ctx context.Context, look waitlist.Look) error {
	seen := map[string]bool{}
	for _, due := range look.Due {
		for _, some := range [][]waitlist.Waiting{due.Promoted, due.Heads} {
			for _, w := range some {
				if process, _, ok := w.Process(); ok {
					seen[process] = true
				}
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	dead, err := d.s.list.Dead(ctx, slices.Collect(maps.Keys(seen)))
	if err != nil || len(dead) == 0 {
		return err
	}
	var gone []waitlist.Task
	var charges [][]reservations.Charge
	for i := range look.Due {
		due := &look.Due[i]
		drop := func(w waitlist.Waiting) bool {
			process, _, _ := w.Process()
			if dead[process] {
				c := reservations.ParseBucket(due.Bucket)
				c.Tokens = w.Tokens
				gone, charges = append(gone, w.Task), append(charges, []reservations.Charge{c})
			}
			return dead[process]
		}
		due.Heads, due.Promoted = slices.DeleteFunc(due.Heads, drop), slices.DeleteFunc(due.Promoted, drop)
	}
	d.s.after(ctx, "caller of a dead process still in a waitlist", func(ctx context.Context) error {
		return d.s.LeaveAll(ctx, gone, charges)
	})
	return nil
}
