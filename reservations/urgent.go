package reservations

import (
	"math"
	"slices"
	"time"
)

// Urgent tasks, under a limit with headroom. They have a ledger of their own beside the five, express, and a line of their own with its own clock.
// Every look of an ordinary task at a ledger needs the headroom on top; an urgent start may use it, and the ordinary line is set back until it is
// there again. While ordinary tasks wait, express fills at what their share leaves of the rate.

// LedgerExpress is the ledger of urgent tasks: less those that started and those that wait. It is not one of the five of a MeterState; see Bucket.Express.
const LedgerExpress = LedgerCount

// ordinary says whether an ordinary task waits.
func (b *Bucket) ordinary() bool {
	return !slices.ContainsFunc(b.Meters, func(s MeterState) bool { return s.Ledgers[LedgerLine] >= s.Ledgers[LedgerUse]-tolerance })
}

// pace is the part of the rate at which express fills.
func (b *Bucket) pace(l Limit) float64 {
	if b.ordinary() {
		return 1 - l.Share()
	}
	return 1
}

// debt is how many seconds pass until the headroom is there again.
func (b *Bucket) debt(l Limit) float64 {
	d := 0.
	for k, m := range l.Meters {
		d = max(d, (m.Headroom-b.Meters[k].Ledgers[LedgerUse])/m.RatePerSecond())
	}
	return d
}

// accrueUrgent is accrue for a limit with headroom. Express begins as LedgerUse where it is not known.
func (b Bucket) accrueUrgent(l Limit, now time.Time) Bucket {
	pace, passed := 1., now.Sub(b.At)
	unused := b.At.IsZero()
	known := !unused && b.fits(l)
	if known {
		pace = b.pace(l)
	}
	b = b.accrue(l, now)
	if !unused && passed < -backwards {
		b.ExpressShift -= passed.Seconds()
	}
	known = known && len(b.Express) == len(l.Meters) && len(b.Owed) == len(l.Meters)
	express, owed := make([]float64, len(l.Meters)), make([]float64, len(l.Meters))
	for k, m := range l.Meters {
		use := b.Meters[k].Ledgers[LedgerUse]
		if express[k] = use; known {
			express[k] = min(use, b.Express[k]+max(0, passed.Seconds())*m.RatePerSecond()*pace)
		}
		if known && (passed <= 0 || pace < 1 && use < m.Cap()) {
			owed[k] = max(0, b.Owed[k])
		}
	}
	b.Express, b.Owed = express, owed
	return b
}

// orderExpress keeps express at or below LedgerUse.
func (b *Bucket) orderExpress() {
	for k := range b.Express {
		b.Express[k] = min(b.Express[k], b.Meters[k].Ledgers[LedgerUse])
	}
}

// waitUse is how many seconds pass until LedgerUse has room for n, headroom included, and no block is left.
func (b *Bucket) waitUse(l Limit, n []float64) float64 {
	w := b.Blocked
	for k, m := range l.Meters {
		w = max(w, (min(n[k], m.Cap())-b.Meters[k].Ledgers[LedgerUse])/m.RatePerSecond())
	}
	return w
}

// waitExpress is the same of express, at the pace at which it fills now.
func (b *Bucket) waitExpress(l Limit, n []float64) float64 {
	w, pace := 0., b.pace(l)
	for k, m := range l.Meters {
		w = max(w, (min(n[k], m.Cap())-b.Express[k])/(m.RatePerSecond()*pace))
	}
	return w
}

// urgent answers an urgent task that wants to begin, to reserve or to take. One that has a place (express, or late after a refusal) looks at use alone:
// express was charged when it took the place.
func (b *Bucket) urgent(l Limit, r Request) Outcome {
	begins := r.Op == OpBegin || r.Op == OpCheck
	placed := begins && (r.State == StateExpress || r.State == StateLate)
	use := b.waitUse(l, r.Tokens)
	w := max(use, b.waitExpress(l, r.Tokens))
	switch {
	case begins && placed && use <= Hold.Seconds():
		return b.startUrgent(l, r.Tokens, use)
	case begins && w <= Hold.Seconds(), r.Op == OpTake && w <= atOnce:
		b.takeExpress(r.Tokens)
		o := b.startUrgent(l, r.Tokens, w)
		if r.Op == OpTake {
			o.Hold = 0
		}
		return o
	case r.Op == OpTake:
		return Outcome{State: StateRefused, Due: b.due(w)}
	}
	b.takeExpress(r.Tokens)
	return Outcome{State: StateExpress, Due: b.At.Add(seconds(w) + seconds(b.ExpressShift))}
}

func (b *Bucket) takeExpress(n []float64) {
	for k := range b.Express {
		b.Express[k] -= n[k]
	}
}

// startUrgent charges n, w seconds from now, to use and late, and sets the ordinary line back until the headroom that this took is there again. What it
// took beside (use had more than the headroom, or one of several meters) the line may still count on: those who then find no room learn of it; see learn.
func (b *Bucket) startUrgent(l Limit, n []float64, w float64) Outcome {
	before := b.debt(l)
	for k, m := range l.Meters {
		for i := LedgerUse; i <= LedgerLate; i++ {
			b.Meters[k].Ledgers[i] = b.charged(m, k, i, n[k], w)
		}
	}
	e := max(0, b.debt(l)-before)
	for k, m := range l.Meters {
		b.Owed[k] = max(0, b.Owed[k]+n[k]-e*m.RatePerSecond())
	}
	b.delay(l, e)
	b.order() // after the delay: else the line would be charged twice
	return Outcome{State: StateStarted, Hold: seconds(w)}
}

// learn sets the ordinary line back when a reserved task, whose time has come, has to wait w more seconds, as far as urgent starts are the cause. It says
// whether they are all of the cause: then the task keeps its place and comes again, in its order, when the line has moved.
func (b *Bucket) learn(l Limit, w float64) bool {
	owed := 0.
	for k, m := range l.Meters {
		owed = max(owed, b.Owed[k]/m.RatePerSecond())
	}
	e := min(w, owed)
	for k, m := range l.Meters {
		b.Owed[k] = max(0, b.Owed[k]-e*m.RatePerSecond())
	}
	b.delay(l, e)
	b.order()
	return w <= owed
}

// settleExpress gives x back to urgent tasks as well: where some wait their clock moves on, as far as use has room, or back.
func (b *Bucket) settleExpress(l Limit, x []float64) {
	if !slices.ContainsFunc(b.Express, func(balance float64) bool { return balance < -tolerance }) {
		for k := range b.Express {
			b.Express[k] += x[k]
		}
		return
	}
	most, least, room := 0., 0., math.Inf(1)
	for k, m := range l.Meters {
		most, least = max(most, x[k]/m.RatePerSecond()), min(least, x[k]/m.RatePerSecond())
		room = min(room, b.Meters[k].Ledgers[LedgerUse]/m.RatePerSecond())
	}
	e := max(0, min(most, room))
	switch {
	case least < 0:
		e = least
	case b.Blocked > 0: // nobody comes before it ends
		e = 0
	}
	b.ExpressShift += e
	for k, m := range l.Meters {
		b.Express[k] += e * m.RatePerSecond()
	}
}

// unmoved is a moment on the clock of the line at a shift, on that of the bucket's shift: a request that changes nothing has not moved it.
func (b *Bucket) unmoved(due time.Time, shift float64) time.Time {
	if due.IsZero() || shift == b.Shift {
		return due
	}
	return due.Add(seconds(b.Shift) - seconds(shift))
}

// blockUrgent is what a block that lasts e seconds longer than the one before does to urgent tasks; and the ordinary ones come when the headroom is there
// again, which begins to fill when the block ends.
func (b *Bucket) blockUrgent(l Limit, e float64) {
	full := 0.
	for _, m := range l.Meters {
		full = max(full, m.Headroom/m.RatePerSecond())
	}
	b.delay(l, max(0, full-(b.debt(l)-b.Blocked)))
	b.ExpressShift -= e
	for k, m := range l.Meters {
		b.Express[k] -= e * m.RatePerSecond()
	}
}

// expressFull is how many seconds pass at most until express is at the capacity.
func (b Bucket) expressFull(l Limit) float64 {
	full := 0.
	for k, m := range l.Meters {
		if l.HasHeadroom() && k < len(b.Express) {
			full = max(full, (m.Cap()-b.Express[k])/(m.RatePerSecond()*(1-l.Share())))
		}
	}
	return full
}
