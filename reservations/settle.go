package reservations

import "slices"

// settledMost is how many settlements a bucket remembers.
const settledMost = 64

// settle gives x back (takes, where negative). Where tasks wait, tokens that come back move the clock of the line on for
// all of them, as far as every meter has room, instead of going to whoever asks next; what was taken moves it back. Windows
// do not move it: what comes back to one is there for those who come, what is taken is missing in the plan.
func (b *Bucket) settle(l Limit, x []float64) Outcome {
	if l.HasHeadroom() {
		o := b.settleLine(l, x, b.ordinary())
		b.settleExpress(l, x)
		return o
	}
	return b.settleLine(l, x, b.waiting())
}

// settleLine is settle for all but urgent tasks. Waiting says whether somebody stands in the line.
func (b *Bucket) settleLine(l Limit, x []float64, waiting bool) Outcome {
	if !waiting {
		b.Carry = 0
		b.give(l, func(_, k int, _ Meter) float64 { return x[k] })
		return Outcome{State: StateSettled}
	}
	gain, took := b.Carry, false // gain: seconds by which the line could move
	for k, m := range l.Meters {
		if !m.windowed() {
			gain = max(gain, b.Carry+x[k]/m.RatePerSecond())
		}
		took = took || x[k] < 0
	}
	e := gain
	switch {
	case took:
		e = b.setBack(l, x)
	case b.Blocked > 0: // nobody comes before it ends
		e = 0
	default:
		for k, m := range l.Meters {
			e = min(e, (b.Meters[k].Ledgers[LedgerLate]-m.Headroom+x[k])/m.RatePerSecond())
		}
		e = max(0, e)
	}
	b.Carry = min(gain-max(0, e), Hold.Seconds())
	b.Shift += e * b.Speed
	b.owes(l, func(k int, m Meter) float64 { return e*m.RatePerSecond() - x[k] })
	b.give(l, func(i, k int, m Meter) float64 {
		switch {
		case i >= LedgerPlan && m.windowed():
			return min(0, x[k])
		case i >= LedgerPlan:
			return e * m.RatePerSecond()
		}
		return x[k]
	})
	return Outcome{State: StateSettled}
}

// settleOnce is settle, unless the bucket remembers the settlement. Where it may have forgotten it, only what takes counts: to give back
// twice would let too many start.
func (b *Bucket) settleOnce(l Limit, r Request) Outcome {
	if r.ID == 0 {
		return b.settle(l, r.Tokens)
	}
	if slices.Contains(b.Settled, r.ID) {
		return Outcome{State: StateSettled}
	}
	x := r.Tokens
	if r.For > 0 && b.At.Add(-r.For).Before(b.Forgot) {
		x = slices.Clone(x)
		onlyTake(x)
	}
	ids := make([]int64, 0, settledMost)
	if len(b.Settled) >= settledMost {
		ids, b.Forgot = append(ids, b.Settled[len(b.Settled)-settledMost+1:]...), b.At
	} else {
		ids = append(ids, b.Settled...)
	}
	b.Settled = append(ids, r.ID)
	return b.settle(l, x)
}

// unseen is what has to be given back (taken, where negative) so that use is what the provider said was left, and what came back since.
// Where that is not known, and where it is more and may not raise, nothing.
func (b *Bucket) unseen(l Limit, r Request) []float64 {
	x := make([]float64, len(l.Meters))
	for k, m := range l.Meters {
		if r.Tokens[k] < 0 {
			continue
		}
		seen := min(m.Cap(), r.Tokens[k]+m.passed(b.At.Add(-r.For), b.At))
		if x[k] = seen - b.Meters[k].Ledgers[LedgerUse]; !r.Up {
			x[k] = min(0, x[k])
		}
	}
	return x
}

// setBack is how many seconds (not positive) those who wait are set back: by what the meter that is deepest in debt now owes more.
func (b *Bucket) setBack(l Limit, x []float64) float64 {
	e := 0.
	for k, m := range l.Meters {
		if m.windowed() {
			continue
		}
		use := b.Meters[k].Ledgers[LedgerUse] - m.Headroom
		e = min(e, (min(0, use+x[k])-min(0, use))/m.RatePerSecond())
	}
	return e
}

// release gives the place of a task that will not come back to newcomers: the ledgers that were charged for it.
func (b *Bucket) release(l Limit, s State, n []float64) Outcome {
	if s == StateExpress && l.HasHeadroom() {
		for k := range b.Express {
			b.Express[k] += n[k]
		}
	}
	first := s.FirstCharged()
	var asked []float64
	if first <= LedgerLine {
		asked = b.asked(n)
	}
	b.give(l, func(i, k int, _ Meter) float64 {
		if i >= first {
			return n[k]
		}
		return 0
	})
	if asked != nil {
		b.closeGaps(l, asked)
	}
	return Outcome{State: StateSettled}
}

// asked is which part of the line's debt was asked for, by meter, without n.
func (b *Bucket) asked(n []float64) []float64 {
	asked := make([]float64, len(n))
	for k := range b.Meters {
		asked[k] = max(0, b.Meters[k].asked()-n[k])
	}
	return asked
}

// closeGaps brings what nobody asked for, which only keeps the places of scarcer meters in time, back to where those of asked end: else newcomers would wait for tasks
// that are no more. Nothing is known of windows, of the headroom and of a block.
func (b *Bucket) closeGaps(l Limit, asked []float64) {
	if b.Blocked > 0 || l.HasHeadroom() || l.windowed() {
		return
	}
	end := 0. // seconds until the last one starts
	for k, m := range l.Meters {
		end = max(end, asked[k]/m.RatePerSecond())
	}
	for k, m := range l.Meters {
		s := &b.Meters[k]
		for i := LedgerPlan; i <= LedgerLine; i++ {
			s.Ledgers[i] = max(s.Ledgers[i], min(s.Ledgers[LedgerLate], -end*m.RatePerSecond()))
		}
		s.setGap(asked[k])
	}
}

// yield gives a start back whose place is kept: the ledgers that a late one is charged to stay as they are, the task starts with
// the tokens that are there for it then.
func (b *Bucket) yield(l Limit, n []float64) Outcome {
	b.give(l, func(i, k int, _ Meter) float64 {
		if i == LedgerUse {
			return n[k]
		}
		return 0
	})
	return Outcome{State: StateSettled}
}

// give adds to every ledger, up to the capacity and never above the ledger before it.
func (b *Bucket) give(l Limit, amount func(ledger, k int, m Meter) float64) {
	for k, m := range l.Meters {
		for i := range b.Meters[k].Ledgers {
			b.Meters[k].Ledgers[i] = min(m.Cap(), b.Meters[k].Ledgers[i]+amount(i, k, m))
		}
	}
	b.order()
}
