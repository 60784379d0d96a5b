package reservations

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/pause"
)

const (
	// LateMost is how much later than granted, and than typical, a call may start. Providers tolerate about as much
	// between requests that travel at different speeds.
	LateMost = 50 * time.Millisecond
	// askMost is how often a start is asked for in all. The tokens of a late start are lost, so the last one counts
	// although it is late.
	askMost = 3
	// typicalFor is the time in which the soonest start says how late they usually are.
	typicalFor = time.Second
)

// Claim is one charge of several that start together or not at all, and the answer of its bucket. Package worker starts
// by claims, and a Waitlist gets the claims of direct calls; most programs need none.
type Claim struct {
	// Charge is what the start takes. Its Shard and Held are set before the bucket is asked.
	Charge Charge
	// Behind says that others wait for the bucket, and that the caller has to wait behind them.
	Behind bool
	// Outcome is the answer of the bucket; zero until it is asked.
	Outcome Outcome
	// Decided is when the bucket decided, and Ready when the hold of a start is over at the latest: both on this machine's
	// clock, and zero until the bucket has answered.
	Decided, Ready time.Time
}

// Claims are what one call or task charges, which starts together or not at all.
type Claims []*Claim

// Charges are the charges of the claims, with the shards that answered, and leases.
func (cs Claims) Charges() []Charge {
	all := make([]Charge, len(cs))
	for i, c := range cs {
		all[i] = c.Charge
	}
	return all
}

// Started are the claims whose bucket let the caller start.
func (cs Claims) Started() (started Claims) {
	for _, c := range cs {
		if c.Outcome.Started() {
			started = append(started, c)
		}
	}
	return started
}

// Ready is when the caller may go on, on this machine's clock: when every bucket has been waited for.
func (cs Claims) Ready() (ready time.Time) {
	for _, c := range cs {
		ready = bucket.Later(ready, c.Ready)
	}
	return ready
}

// Begin starts the claims, all or none: it asks their buckets in order, and waits for the hold of each before it asks
// the next one. So the provider's bucket, the last one, decides just before the call. Starts that come by more than
// late later than granted, and than is typical, could meet at the provider starts that were granted later: their
// buckets are asked again, and what they took is lost. The third start counts although it is late.
//
// If others wait for one of the buckets, only that bucket is asked, and the caller waits there. To ask the buckets
// before it would take tokens that the caller can't use, and later callers would pass it while it holds for them.
//
// Begin returns the claim that did not let the caller start; nil if all have started, and the call may be made now. The
// error is that of each, or the cause of the end of ctx, which ends a hold. What has started is the caller's to cancel.
//
// Each is called for each bucket. It calls ask, which has the errors of Start and sets the claim's answer, or returns
// an error of its own.
func (l *Limiter) Begin(
	ctx context.Context, claims Claims, late time.Duration, each func(c *Claim, ask func(context.Context) error) error,
) (stopped *Claim, err error) {
	hold := func() error {
		if left := time.Until(claims.Ready()); left > 0 && pause.For(ctx, left) != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	var before []Claim // the starts that came too late
	for asked := 1; ; asked++ {
		stopped, err = admit(claims, func(c *Claim) error {
			if ended := hold(); ended != nil {
				return ended
			}
			return each(c, func(ctx context.Context) error { return l.askClaim(ctx, c) })
		})
		if stopped != nil || len(claims) == 0 {
			for i := slices.Index(claims, stopped) + 1; i < len(before); i++ { // not asked again: they have started
				*claims[i] = before[i]
			}
			return stopped, err
		}
		if err = hold(); err != nil {
			return claims[len(claims)-1], err
		}
		before = before[:0]
		for _, c := range claims {
			before = append(before, *c)
		}
		if asked == askMost || !l.tooLate(ctx, claims, late) {
			return nil, nil //nolint:nilnil // all have started
		}
	}
}

// newClaims are the claims of charges that have not started.
func newClaims(charges []Charge) Claims {
	claims := make(Claims, len(charges))
	for i, c := range charges {
		c.Shard, c.Held, c.Lease = 0, "", 0 // the limiter chooses, or the waitlist says
		claims[i] = &Claim{Charge: c}
	}
	return claims
}

// admit asks the buckets in order. It returns the first claim whose bucket does not let the caller start, or can't be
// asked, with the error of ask. Nil means that all buckets let the caller start.
func admit(claims Claims, ask func(*Claim) error) (stopped *Claim, err error) {
	if i := slices.IndexFunc(claims, func(c *Claim) bool { return c.Behind }); i >= 0 {
		return claims[i], ask(claims[i])
	}
	for _, c := range claims {
		if c.Outcome.Started() { // before another one's start came too late
			continue
		}
		if err := ask(c); err != nil || !c.Outcome.Started() {
			return c, err
		}
	}
	return nil, nil //nolint:nilnil // nothing stopped it
}

// askClaim asks the bucket of the claim and sets its answer: a start, or where others wait for the bucket a reservation
// alone. Errors as for Start; then the claim has no answer.
func (l *Limiter) askClaim(ctx context.Context, c *Claim) error {
	asked := time.Now()
	var o Outcome
	var err error
	if c.Behind {
		o, err = l.one(ctx, c.Charge, bucket.Request{Op: bucket.OpReserve})
	} else {
		o, err = l.Start(ctx, c.Charge)
	}
	if err != nil {
		return err
	}
	held := c.Charge.Held // of before: others decide whether the caller goes on to wait
	c.Outcome, c.Charge = o, o.Charge
	c.Charge.Held = held
	c.Decided, c.Ready = l.clock.moment(asked, time.Now(), o.At)
	c.Ready = c.Ready.Add(o.Hold)
	return nil
}

// settlementID names this start of the claim for Settle and Cancel: of is the name of what starts.
func (c *Claim) settlementID(of string) string { return fmt.Sprintf("%s/%d", of, c.Decided.UnixNano()) }

// tooLate says that a start of all claims comes by more than most later than is typical. Then it resets the starts that
// do not last, so that their buckets are asked again: their tokens and reservations are lost. False means that the call
// may be made.
func (l *Limiter) tooLate(ctx context.Context, claims Claims, most time.Duration) bool {
	late, provider := time.Since(claims.Ready()), claims[len(claims)-1]
	return l.delays.of(provider).stale(time.Now(), late, most) &&
		lose(claims, func(c *Claim) bool { return l.lasts(ctx, c) })
}

// lose resets the starts that came too late, except the starts that last. It reports whether there are any.
func lose(claims Claims, lasts func(*Claim) bool) (lost bool) {
	for _, c := range claims.Started() {
		if !lasts(c) {
			c.Outcome, lost = Outcome{}, true
			c.Charge.Held = StateWaiting
		}
	}
	return lost
}

// lasts reports whether a late start counts as it did when it was granted, as in the same fixed window. Otherwise a
// day's window would have the task wait until tomorrow.
func (l *Limiter) lasts(ctx context.Context, c *Claim) bool {
	limit, err := l.bucket(ctx, c.Charge)
	at := c.Outcome.At
	return err == nil && limit.Rules().SameWindows(at, at.Add(time.Since(c.Decided)))
}

// startDelays is how late starts typically are. A start with a hold is late by the timer; a start at once is late by
// the time of the bucket's answer as well.
type startDelays struct {
	held, atOnce punctuality
}

func (u *startDelays) of(c *Claim) *punctuality {
	if c.Outcome.Hold > 0 {
		return &u.held
	}
	return &u.atOnce
}

// punctuality detects starts that come so late that they could meet, at the provider, starts that were granted later.
// That happens after a process or a machine was suspended. A process that is always late is exempt: its calls are as
// far apart as they should be. The zero value expects starts in time. Safe for concurrent use.
type punctuality struct {
	mu      sync.Mutex    // guards the fields below
	typical time.Duration // the least delay in the last period with a start
	since   time.Time     // when this period began
	least   time.Duration // the least delay in this period
}

// stale records the delay of a start, and reports whether it is more than most above the typical one.
func (p *punctuality) stale(now time.Time, late, most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.since) >= typicalFor {
		p.typical, p.since, p.least = p.least, now, late
	}
	p.least = min(p.least, late)
	return late > p.typical+most
}
