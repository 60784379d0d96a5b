package bucket

import (
	"cmp"
	"time"
)

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
	// climbCalls is how many calls of the size of a refused one the rate takes to climb back to where it was refused.
	climbCalls = 50
	// climbLeast is how long that takes at least, in seconds, if the refusal named no time, so that the bucket paused.
	climbLeast = 20
	// climbMost is how long it takes at most, in seconds: a call that is too large must not hold the rate down.
	climbMost = 60
	// ceilingPast is how far above the rate of the last refusal the rate climbs as fast as its ramp again.
	ceilingPast = 1.5
	// learnedFor is how long an unused meter without a ramp keeps its rate.
	learnedFor = 24 * time.Hour
)

// Adaptive says whether the rate finds itself between two bounds.
func (f Filling) Adaptive() bool { return f.Most > 0 }

// rule is f as its limit has it, without what was learned.
func (f Filling) rule() Filling {
	if f.Adaptive() {
		f.Rate = f.Least
	}
	return f
}

// from is f with the rate that was learned before, within the bounds.
func (f Filling) from(was Filling) Filling {
	if f.Adaptive() && !was.windowed() {
		f.Rate = min(f.Most, max(f.Least, was.Rate))
	}
	return f
}

// adapted is f with the rate that the balance s has found at a later moment: it climbs while s is below half of its
// capacity, and falls while it is full, where the meter has a ramp. Not during a block. What comes back until then
// comes by the rate before.
func (b *Bucket) adapted(s Balance, f Filling, to time.Time) Filling {
	from := Later(b.At, b.Blocked)
	d := to.Sub(from)
	if !f.Adaptive() || d <= 0 {
		return f
	}
	used := min(d, s.Filling.until(from, usedBelow*s.Filling.Capacity-s.Started))
	unused := time.Duration(0)
	if f.Ramp > 0 {
		unused = max(0, d-s.Filling.until(from, s.Filling.Capacity-s.Started))
	}
	slope := (f.Most - f.Least) / cmp.Or(f.Ramp, RampDefault).Seconds()
	f.Rate = s.climbed(f.Rate, slope, used.Seconds()) - slope*unused.Seconds()
	f.Rate = min(f.Most, max(f.Least, f.Rate))
	return f
}

// climbed is a rate after it climbed for some seconds: by slope, and more slowly near the rate of the last refusal.
func (s Balance) climbed(rate, slope, seconds float64) float64 {
	if past := ceilingPast * s.Ceiling; s.Climb > 0 && s.Climb < slope && rate < past {
		near := min(seconds, (past-rate)/s.Climb)
		rate, seconds = rate+near*s.Climb, seconds-near
	}
	return rate + slope*seconds
}

// slow lowers the rates of all adaptive meters: the provider refused a call. Call is its size, nil if that is not
// known. Paused says that it named no time.
func (b *Bucket) slow(call []float64, paused bool) {
	for k := range b.Meters {
		s := &b.Meters[k]
		rate := s.Filling.Rate
		if b.slowOne(k, slowedFor) && k < len(call) && call[k] > 0 {
			seconds := min(climbMost, climbCalls*call[k]/rate)
			if paused {
				seconds = max(seconds, climbLeast)
			}
			s.Ceiling, s.Climb = rate, (1-slowedTo)*rate/seconds
		}
	}
}

// slowOne lowers the rate of a meter, unless that was done a short while ago.
func (b *Bucket) slowOne(k int, apart time.Duration) (slowed bool) {
	s := &b.Meters[k]
	lately := !s.Slowed.After(b.At) && b.At.Before(s.Slowed.Add(apart)) // a moment that lies ahead is no valid one
	if !s.Filling.Adaptive() || lately {
		return false
	}
	s.Filling.Rate = max(s.Filling.Least, slowedTo*s.Filling.Rate)
	s.Slowed = b.At
	return true
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
	if b.Refused != nil {
		until = Later(until, b.Refused.until())
	}
	for _, s := range b.Meters {
		switch {
		case !s.Filling.Adaptive() || s.Filling.Rate == s.Filling.Least:
		case s.Filling.Ramp > 0:
			until = Later(until, b.FullAt().Add(s.Filling.Ramp))
		default:
			until = Later(until, b.FullAt().Add(learnedFor))
		}
	}
	return until
}
