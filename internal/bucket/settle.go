package bucket

import (
	"slices"
	"time"
)

// settledMost is how many settlements a bucket remembers.
const settledMost = 64

// settle gives the tokens back to both balances, and takes negative ones. A task that keeps its reservation gets
// nothing back of the reserved balance. While other tasks hold, a refund counts only as far as the provider has
// room for it.
func (b *Bucket) settle(r Request) {
	for k, n := range r.Tokens {
		s := &b.Meters[k]
		if n > 0 {
			*s = s.hold(-n, r.HoldEnd)
		}
		n = b.returns(*s, n, b.gone(r))
		s.Started = min(s.Started+n, max(s.Started, b.refundable(*s)))
		if !r.Reserved {
			s.Reserved += n
		}
		s.Reserved = min(s.Started, s.Reserved)
	}
}

// settleOnce is settle, unless the bucket remembers the settlement. Where the bucket may have forgotten it, only what
// takes counts: to give back twice would let too many start.
func (b *Bucket) settleOnce(r Request) {
	if r.ID == 0 {
		b.settle(r)
		return
	}
	if slices.Contains(b.Settled, r.ID) {
		return
	}
	if forgot := Later(b.Forgot, time.UnixMilli(b.Generation)); r.For > 0 && b.At.Add(-r.For).Before(forgot) {
		r.Tokens = OnlyTaken(r.Tokens)
	}
	ids := b.Settled
	if len(ids) >= settledMost {
		ids, b.Forgot = ids[len(ids)-settledMost+1:], b.At
	}
	b.Settled = append(slices.Clone(ids), r.ID)
	b.settle(r)
}

// sync makes the started balance what the provider says, as far as unseen lets it.
func (b *Bucket) sync(r Request) {
	x := b.unseen(r)
	for k, n := range x {
		s := &b.Meters[k]
		s.Lowered = max(0, s.Lowered-n)
	}
	b.settle(Request{Tokens: x})
}

// longWindow is the period from which on one OpSync takes at most seenShare of a window's tokens: a wrong header would
// stop the limit until the window ends. Each further one takes its share of the rest.
const (
	longWindow = time.Hour
	seenShare  = 0.5
)

// unseen is what has to be given back so that the started balance is what the provider says was left and what came back
// since. One OpSync may not change a long window by more than its share. Unseen is zero for a meter of which nothing is
// known, and where it would raise the balance without Up.
func (b *Bucket) unseen(r Request) []float64 {
	x := make([]float64, len(r.Tokens))
	for k, left := range r.Tokens {
		if left < 0 {
			continue
		}
		s := b.Meters[k]
		seen := min(s.Filling.Capacity, left+s.Filling.passed(b.At.Add(-r.For), b.At))
		if x[k] = seen - s.Started; !r.Up {
			x[k] = min(0, x[k])
		}
		if s.Filling.windowed() && s.Filling.Period > longWindow {
			x[k] = max(x[k], -seenShare*max(0, s.Started))
		}
	}
	return x
}

// OnlyTaken is x without what it gives back.
func OnlyTaken(x []float64) []float64 {
	x = slices.Clone(x)
	for k := range x {
		x[k] = min(0, x[k])
	}
	return x
}
