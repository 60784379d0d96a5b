package reservations

import (
	"context"
	"slices"
	"time"
)

// advance moves the clock of the line on so far that the first who waits comes when ledger late has room for it. Nobody is due before, so what comes back until then would be there for
// nobody; and all others come as far behind the first as they would have. The places are not charged anew: those that were given up are in the plan again already, and where others were
// lost, the next who is given a time behind them is moved on in the same way.
func (b *Bucket) advance(l Limit, r Request) Outcome {
	if b.Generation == r.Generation && !l.windowed() {
		early := (r.Due.Sub(b.At).Seconds()-b.Shift)/b.Speed - b.lacks(l, r.Tokens)
		b.Shift += max(0, min(early, r.For.Seconds())) * b.Speed
	}
	return Outcome{State: StateSettled}
}

// lacks is how many seconds pass until ledger late has room for n beside the headroom; negative where it has room for more, by as much as comes back in that time.
func (b *Bucket) lacks(l Limit, n []float64) float64 {
	w := -MaxWait.Seconds()
	for k, m := range l.Meters {
		w = max(w, (min(n[k]+m.Headroom, m.Cap())-b.Meters[k].Ledgers[LedgerLate])/m.RatePerSecond())
	}
	if b.Blocked > 0 {
		return max(w, b.Blocked)
	}
	return w
}

// windowed says whether a meter is a fixed window: those who wait for one come when it ends, and no sooner.
func (l Limit) windowed() bool { return slices.ContainsFunc(l.Meters, Meter.windowed) }

// Lasts is how far the one behind c is due after c in its bucket, while tasks wait: how long what c takes needs to come back. Zero where that says nothing, since the limit has
// fixed windows, and where there is no such limit.
func (l *Limiter) Lasts(c Charge) time.Duration {
	limit, err := l.bucketOf(c)
	if err != nil || limit.windowed() {
		return 0
	}
	return seconds(limit.comesBack(c.Tokens.vector(limit)))
}

// Advance moves those who wait in the bucket of c on, by most at most, where the first of them, which holds p for c, is due later than it has to be, because others that stood in line
// were withdrawn or lost: what comes back meanwhile would be there for nobody. It comes as soon as there are tokens for it then, and all others as much sooner. The limit
// counts as ever, and of callers at the same time one moves the line. The outcome carries the shift, and moved is by how much this call moved it.
//
// Nothing is moved where p was given by another generation of the bucket. Where the limit has fixed windows the store is not asked, and the outcome is
// zero. Errors as for Begin.
func (l *Limiter) Advance(ctx context.Context, c Charge, p Place, most time.Duration) (o Outcome, moved time.Duration, err error) {
	limit, err := l.bucketOf(c)
	if err != nil || limit.windowed() {
		return Outcome{}, 0, err
	}
	if err = c.Validate(limit); err != nil {
		return Outcome{}, 0, err
	}
	r := Request{Op: OpAdvance, Due: p.Due, Generation: p.Generation, Tokens: c.Tokens.vector(limit)}
	before := r // by nothing
	r.For = most
	outcomes, err := l.askMany(ctx, limit, c.Key, before, r)
	if err != nil {
		return Outcome{}, 0, err
	}
	o, moved = outcomes[1], outcomes[1].Shift-outcomes[0].Shift
	if o.Speed > 0 && o.Speed != 1 {
		moved = seconds(moved.Seconds() / o.Speed)
	}
	return o, moved, nil
}
