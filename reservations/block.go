package reservations

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// MaxBlock bounds a block: whatever a provider asks for, a bucket is asked again after a day.
const MaxBlock = 24 * time.Hour

// block lets nothing start for d. Those who wait keep their order and are set back by it, without a delivery; nothing comes back
// meanwhile. A block inside a longer one changes nothing, one that ends later counts from the end of the first.
func (b *Bucket) block(l Limit, d time.Duration) Outcome {
	length := min(d, MaxBlock).Seconds()
	if e := length - b.Blocked; e > 0 {
		b.setBlock(l, length, e)
	}
	if b.Blocked == 0 {
		return Outcome{State: StateSettled}
	}
	return Outcome{State: StateSettled, Due: b.due(b.Blocked)}
}

// setBlock lets nothing start for length seconds, e longer than before.
func (b *Bucket) setBlock(l Limit, length, e float64) {
	if l.HasHeadroom() {
		b.blockUrgent(l, e)
	}
	b.Blocked = length
	b.Shift -= e * b.Speed
	for k, m := range l.Meters {
		b.hold(m, &b.Meters[k].Ledgers, length, e)
	}
	b.order()
}

// hold takes from a meter what a block of length seconds, e longer than before, keeps from coming back.
func (b *Bucket) hold(m Meter, led *[LedgerCount]float64, length, e float64) {
	if !m.windowed() {
		led[LedgerUse] = min(led[LedgerUse], -length*m.RatePerSecond())
	}
	for i := LedgerLate; i < LedgerCount; i++ {
		if m.windowed() { // nothing is lost but what the capacity can't hold when it ends: no place is given beyond that
			led[i] = min(led[i], m.Cap()-m.gain(b.At, length))
		} else {
			led[i] -= e * m.RatePerSecond()
		}
	}
}

// Block lets nothing start in the bucket of limit and key for d, counted from the store's answer: a provider refused a call and
// named a time. Whoever waits keeps its place, and is set back by as much, without being woken for it: hand the outcome, which carries
// the shift, to whatever wakes them. What was already told to start is not stopped. D is at most MaxBlock, and more is
// cut to it; zero and less do nothing, and then the outcome is zero. A block inside a longer one changes nothing: Outcome.Due and
// Outcome.Wait say when the block that is in force ends.
//
// While the store is unavailable Block keeps trying for what is left of d, with growing pauses, until ctx ends or d is over: to
// block twice does no harm. Errors: ErrUnknownLimit, ErrUnavailable.
func (l *Limiter) Block(ctx context.Context, limit, key string, d time.Duration) (Outcome, error) {
	outcomes, err := l.BlockAll(ctx, Charge{Limit: limit, Key: key}, d)
	return outcomes[0], err
}

// BlockAll is Block with the outcome of each shard of the charge's bucket, first that of the charge's own; one where there are no shards.
func (l *Limiter) BlockAll(ctx context.Context, c Charge, d time.Duration) ([]Outcome, error) {
	limits, err := l.Limits().buckets(c)
	if err != nil || d <= 0 {
		return make([]Outcome, 1), err
	}
	return askAll(ctx, limits, func(ctx context.Context, limit Limit) (Outcome, error) { return l.blockOne(ctx, limit, c.Key, d) })
}

func (l *Limiter) blockOne(ctx context.Context, known Limit, key string, d time.Duration) (Outcome, error) {
	end := time.Now().Add(min(d, MaxBlock))
	for pause, left := settleRetryMin, d; ; pause, left = min(2*pause, settleRetryMax), time.Until(end) {
		o, err := l.ask(ctx, known, key, Request{Op: OpBlock, Tokens: make([]float64, len(known.Meters)), For: left})
		if err == nil || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return o, err
		}
		if !sleep(ctx, min(pause/2+rand.N(pause), time.Until(end))) || time.Until(end) <= 0 { //nolint:gosec // jitter needs no secrecy
			return o, err
		}
	}
}
