package reservations

import "time"

// Adaptive lets the rate of a meter find itself between two bounds, for a provider whose limit is not known or changes.
// While tasks use what comes back, the rate climbs. A refusal by the provider (Block) lowers it, and so does a provider
// that says that little is left (Sync). The bucket keeps the present rate, so the whole fleet has the same.
type Adaptive struct {
	// Max is the highest rate, in tokens every Period of the meter; its Rate is the lowest. Zero means a fixed rate.
	Max float64
	// Ramp is how long the rate climbs from the lowest to the highest, at least. An unused meter loses it again in the
	// same time, so that a fleet begins slowly after a quiet time. Zero means RampDefault, and that an unused meter keeps
	// its rate for a day.
	Ramp time.Duration
}

// RampDefault is how long the rate of an adaptive meter climbs from the lowest to the highest where no Ramp is given.
const RampDefault = 2 * time.Minute

const (
	// slowedTo is what a refusal leaves of the rate. See docs/decisions/0005-adaptive-limits.md for all constants.
	slowedTo = .7
	// slowedFor is how soon a refusal may lower the rate again: others within it come from calls that were already
	// under way.
	slowedFor = time.Second
	// usedBelow is the part of the capacity below which a meter is in use, so that its rate climbs.
	usedBelow = .5
	// lowBelow is the part of the capacity below which a provider says that little is left.
	lowBelow = .25
	// lowMost bounds how far apart two such answers lower the rate: otherwise a full capacity comes back between them.
	lowMost = 10 * time.Second
	// learnedFor is how long an unused meter without a ramp keeps its rate.
	learnedFor = 24 * time.Hour
)

func (f Filling) adaptive() bool { return f.Most > 0 }

// rule is f as its limit has it, without what was learned.
func (f Filling) rule() Filling {
	if f.adaptive() {
		f.Rate = f.Least
	}
	return f
}

// from is f with the rate that was learned before, within the bounds.
func (f Filling) from(was Filling) Filling {
	if f.adaptive() && !was.windowed() {
		f.Rate = min(f.Most, max(f.Least, was.Rate))
	}
	return f
}

// adapted is f with the rate that the balance s has found at a later moment: it climbs while s is below half of its
// capacity, and falls while it is full, where the meter has a ramp. Not during a block. What comes back until then
// comes by the rate before.
func (b *Bucket) adapted(s Balance, f Filling, to time.Time) Filling {
	d := to.Sub(later(b.At, b.Blocked))
	if !f.adaptive() || d <= 0 {
		return f
	}
	ramp := f.Ramp
	if ramp == 0 {
		ramp = RampDefault
	}
	from := later(b.At, b.Blocked)
	used := min(d, s.Filling.until(from, usedBelow*s.Filling.Capacity-s.Started))
	unused := time.Duration(0)
	if f.Ramp > 0 {
		unused = max(0, d-s.Filling.until(from, s.Filling.Capacity-s.Started))
	}
	f.Rate += (f.Most - f.Least) * (used - unused).Seconds() / ramp.Seconds()
	f.Rate = min(f.Most, max(f.Least, f.Rate))
	return f
}

// slow lowers the rates of all adaptive meters: the provider refused a call.
func (b *Bucket) slow() {
	for k := range b.Meters {
		b.slowOne(k, slowedFor)
	}
}

// slowOne lowers the rate of a meter, unless that was done a short while ago.
func (b *Bucket) slowOne(k int, apart time.Duration) {
	s := &b.Meters[k]
	lately := !s.Slowed.After(b.At) && b.At.Before(s.Slowed.Add(apart)) // a moment that lies ahead is no valid one
	if !s.Filling.adaptive() || lately {
		return
	}
	s.Filling.Rate = max(s.Filling.Least, slowedTo*s.Filling.Rate)
	s.Slowed = b.At
}

// slowWhereLow lowers the rates of the adaptive meters of which the provider says that little is left.
func (b *Bucket) slowWhereLow(r Request) {
	for k, left := range r.Tokens {
		f := b.Meters[k].Filling
		if left >= 0 && left+1 <= lowBelow*f.Capacity { // a provider names whole tokens
			b.slowOne(k, min(lowMost, max(slowedFor, f.until(b.At, f.Capacity))))
		}
	}
}

// KeepUntil is until when the bucket is worth keeping: it is full by then, and its adaptive meters are as new.
func (b Bucket) KeepUntil() time.Time {
	until := b.FullAt()
	for _, s := range b.Meters {
		switch {
		case !s.Filling.adaptive() || s.Filling.Rate == s.Filling.Least:
		case s.Filling.Ramp > 0:
			until = later(until, b.FullAt().Add(s.Filling.Ramp))
		default:
			until = later(until, b.FullAt().Add(learnedFor))
		}
	}
	return until
}

func (m Meter) validateAdaptive(fault func(field, format string, args ...any)) {
	a := m.Adaptive
	if a == (Adaptive{}) {
		return
	}
	if m.windowed() {
		fault("adaptive", "a fixed window can't find its rate, only a token bucket can")
	}
	if !positive(a.Max) || a.Max < m.Rate {
		fault("adaptive.max", "%v must be a number of tokens that is no less than the lowest rate, %v, up to %g",
			a.Max, m.Rate, largestAmount)
	}
	if a.Ramp < 0 {
		fault("adaptive.ramp", "%v must not be negative; zero means %v", a.Ramp, RampDefault)
	}
}
