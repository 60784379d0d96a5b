package bucket

import (
	"slices"
	"time"
)

const (
	// MaxWait bounds every wait that a bucket answers with.
	MaxWait = 100 * 365 * 24 * time.Hour
	// LargestAmount bounds every number of tokens, so that sums stay exact.
	LargestAmount = 1e15
	// MaxKey bounds a key, in bytes: stores index it, and people read it.
	MaxKey = 512
	// MaxShards is the most shards that a limit may have.
	MaxShards = 256
	// InFlightMost bounds the calls in flight of a limit: a bucket stores each of them.
	InFlightMost = 1000
	// MaxBlockDefault is the longest block of a limit that does not say more: one wrong Retry-After must not stop a
	// fleet for a day.
	MaxBlockDefault = 10 * time.Minute
	// MaxBlockMost bounds the setting of a limit.
	MaxBlockMost = 24 * time.Hour
)

// Limit is a limit as one of its buckets has it: with the part of a shard, and with all defaults set.
type Limit struct {
	// Name is that of the limit, or of its shard.
	Name   string
	Meters []Meter
	// MaxWait bounds how far ahead in time the bucket promises tokens. Zero means no bound.
	MaxWait time.Duration
	// MaxBlock bounds a block.
	MaxBlock time.Duration
	// OrdinaryShare is the part that ordinary tasks keep while urgent ones wait, for the waitlist.
	OrdinaryShare float64
}

// Meter is one meter of a Limit.
type Meter struct {
	Name string
	// Filling is that of a new bucket.
	Filling Filling
	// MaxReserved bounds how many tokens the bucket promises ahead of their time; it may be infinite.
	MaxReserved float64
	// First is when the first window starts: a new bucket lacks the rate of each window before it.
	First time.Time
}

// RatePerSecond is the number of tokens that come back every second: none of calls in flight.
func (m Meter) RatePerSecond() float64 {
	if m.Filling.windowed() {
		return m.Filling.Rate / m.Filling.Period.Seconds()
	}
	return m.Filling.Rate
}

// Returns is the most tokens that come back between two moments: an adaptive meter has its highest rate. None of calls
// in flight.
func (m Meter) Returns(from, to time.Time) float64 {
	f := m.Filling
	if f.Adaptive() {
		f.Rate = f.Most
	}
	return f.passed(from, to)
}

// Largest is the largest charge that this meter can ever serve. A charge above the capacity needs a full bucket and is
// then owed. So it is bounded by how far the balance may go into deficit, and by what comes back within MaxWait.
func (m Meter) Largest() float64 {
	return m.Filling.Capacity + min(m.MaxReserved, m.RatePerSecond()*MaxWait.Seconds())
}

// HasHeadroom says whether a meter keeps tokens for urgent tasks. If not, urgent tasks are ordinary ones.
func (l Limit) HasHeadroom() bool {
	return slices.ContainsFunc(l.Meters, func(m Meter) bool { return m.Filling.Headroom > 0 })
}

// Vector lays the tokens of a charge out in the order of the meters. A meter of calls in flight that is not named
// counts one.
func (l Limit) Vector(tokens map[string]float64) []float64 {
	n := make([]float64, len(l.Meters))
	for k, m := range l.Meters {
		amount, named := tokens[m.Name]
		if !named && m.Filling.InFlight {
			amount = 1
		}
		n[k] = amount
	}
	return n
}

// Seconds is what a charge of n costs in time: how long the scarcest meter needs until its tokens have come back. A
// call in flight counts as one that takes a second.
func (l Limit) Seconds(n []float64) float64 {
	longest := 0.
	for k, m := range l.Meters {
		rate := m.RatePerSecond()
		if m.Filling.InFlight {
			rate = m.Filling.Capacity
		}
		longest = max(longest, n[k]/rate)
	}
	return longest
}

// TakesSlots says whether a charge of n needs a lease.
func (l Limit) TakesSlots(n []float64) bool {
	for k, m := range l.Meters {
		if m.Filling.InFlight && n[k] > 0 {
			return true
		}
	}
	return false
}

// meter is the position of a meter, -1 where there is none.
func (l Limit) meter(name string) int {
	return slices.IndexFunc(l.Meters, func(m Meter) bool { return m.Name == name })
}
