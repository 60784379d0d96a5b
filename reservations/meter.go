package reservations

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// None means zero where zero means a default: as a Meter's MaxReserved no tokens are promised, and a task that finds no
// room waits without a promise. As a Meter's Capacity no tokens are kept, and each task starts when the tokens of the
// task before it have come back.
const None = -math.MaxFloat64

// MeterInFlight is the name of the one meter of KindInFlight that a limit may have.
const MeterInFlight = "in_flight"

// Kind says how a meter fills.
type Kind string

const (
	// KindBucket fills evenly, Rate tokens every Period: a token bucket. The zero value means the same.
	KindBucket Kind = "bucket"
	// KindWindow fills by Rate at once when a window of Period ends, up to the capacity: a fixed window. What a window
	// leaves is there for the next as far as the capacity goes beyond Rate; with a capacity of zero nothing rolls over.
	KindWindow Kind = "window"
	// KindInFlight counts calls that run: nothing refills the meter but the end of a call. A start takes slots by a lease
	// that its process renews, see Grant.Keep; a settlement ends the lease, and so does its expiry.
	KindInFlight Kind = "in_flight"
)

// SettleMode says what a settlement may do to the bucket. It has to match how the provider counts.
type SettleMode string

const (
	// SettleAdjust gives back what an estimate took too much, and takes what it took too little. It is right where the
	// provider corrects its own count when a call ends. The zero value of SettleMode means SettleAdjust.
	SettleAdjust SettleMode = "adjust"
	// SettleKeep only takes. It is right where the provider counts the estimate and never corrects it downwards.
	SettleKeep SettleMode = "keep"
)

// Meter is one rate of a Limit: Rate tokens every Period, up to Capacity, that come back evenly (a token bucket) or all
// at once when a window ends (a fixed window). InFlight returns the one without a rate.
type Meter struct {
	// Name identifies the meter within its limit, e.g. "requests" or "tokens". Same letters as a limit's name.
	Name string
	// Rate is the number of tokens that come back every Period. Must be positive, from 1e-15 to 1e15.
	Rate float64
	// Period is what Rate counts for. Must be positive.
	Period time.Duration
	// Capacity is the most tokens the bucket holds: the largest burst. Zero means Rate, one period's worth. None keeps
	// no tokens.
	Capacity float64
	// MaxReserved bounds how many tokens the bucket promises ahead of their time: the deficit of its reserved balance.
	// Zero means no bound, and None promises none.
	MaxReserved float64
	// Kind says how the meter fills. The zero value is KindBucket.
	Kind Kind
	// Start is when a window starts, and with it all that follow every Period: the time since the Unix epoch, or what
	// is left of it after whole periods, e.g. 8h for days that start at 8:00 UTC. A moment in the future is that of the
	// first full window: a new bucket lacks the rate of each window before it. Whole milliseconds. Zero for token
	// buckets.
	Start time.Duration
	// Spread derives Start from the bucket's name instead, so that the windows of many buckets do not all start at
	// once, and all machines agree. The Limiter derives it; stores see a Start.
	Spread bool
	// Headroom is how many tokens of the capacity only urgent charges use: an ordinary charge starts when the balance
	// holds as many more. Less than the capacity. Zero means none. Token buckets only.
	Headroom float64
	// Settle says how corrections of this meter are counted. The zero value is that of the Limit.
	Settle SettleMode
	// Adaptive lets the rate find itself: Rate is then the lowest one, and that of a new bucket. Token buckets only. The
	// zero value means a fixed rate.
	Adaptive Adaptive
}

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

// PerSecond returns a meter of rate tokens a second with a capacity of one second's worth and unlimited reservations.
func PerSecond(name string, rate float64) Meter {
	return Meter{Name: name, Rate: rate, Period: time.Second}
}

// PerMinute returns a meter of rate tokens a minute with a capacity of one minute's worth and unlimited reservations.
func PerMinute(name string, rate float64) Meter {
	return Meter{Name: name, Rate: rate, Period: time.Minute}
}

// PerDay returns a meter of rate tokens a day, from midnight to midnight UTC, with unlimited reservations.
func PerDay(name string, rate float64) Meter {
	return Meter{Name: name, Kind: KindWindow, Rate: rate, Period: 24 * time.Hour}
}

// InFlight returns a meter that lets at most that many calls run at once, from 1 to 1000. A charge takes one of them
// unless its Tokens name MeterInFlight. The meter promises nothing to waiting tasks, and no task holds for it.
func InFlight(calls int) Meter {
	return Meter{Name: MeterInFlight, Kind: KindInFlight, Capacity: float64(calls)}
}

// windowed says whether the meter fills by windows.
func (m Meter) windowed() bool { return m.Kind == KindWindow }

func (m Meter) inFlight() bool { return m.Kind == KindInFlight }

// Cap is the capacity in force: Capacity, or Rate where Capacity is zero, or zero where it is None.
func (m Meter) Cap() float64 {
	if m.Capacity == None {
		return 0
	}
	return cmp.Or(m.Capacity, m.Rate)
}

func (m Meter) reservedText() string {
	if m.MaxReserved == 0 {
		return "unlimited"
	}
	return fmt.Sprint(m.rules().MaxReserved)
}

// rules is the meter as a bucket has it.
func (m Meter) rules() bucket.Meter {
	rules := bucket.Meter{Name: m.Name, Filling: bucket.Filling{Capacity: m.Cap(), Headroom: m.Headroom}}
	f := &rules.Filling
	switch {
	case m.inFlight():
		f.InFlight = true
		return rules
	case m.windowed():
		f.Rate, f.Period, f.Offset = m.Rate, m.Period, (m.Start%m.Period+m.Period)%m.Period
		rules.First = time.Unix(0, int64(m.Start))
	default:
		f.Rate = m.Rate / m.Period.Seconds()
		if m.Adaptive.Max > 0 {
			f.Least, f.Most, f.Ramp = f.Rate, m.Adaptive.Max/m.Period.Seconds(), m.Adaptive.Ramp
		}
	}
	if rules.MaxReserved = max(0, m.MaxReserved); m.MaxReserved == 0 { // None is negative
		rules.MaxReserved = math.Inf(1)
	}
	return rules
}

func (m Meter) validate(fault func(field, format string, args ...any)) {
	if !positive(m.Rate) {
		fault("rate", "%v must be a positive number of tokens, from %g to %g", m.Rate, smallestAmount, bucket.LargestAmount)
	}
	if m.Period <= 0 {
		fault("period", "%v must be positive, e.g. 1m", m.Period)
	}
	switch {
	case m.Capacity == None && m.windowed():
		fault("capacity", "a fixed window can't be without a burst: all of it comes back at once")
	case m.Capacity == None && m.MaxReserved == None:
		fault("max_reserved", "must not be zero without a capacity: all that starts is owed")
	case m.Capacity != 0 && m.Capacity != None && !positive(m.Capacity):
		fault("capacity", "%v must be a number of tokens from %g to %g; left out it is one period's worth",
			m.Capacity, smallestAmount, bucket.LargestAmount)
	}
	switch {
	case m.Headroom == 0:
	case !(m.Headroom > 0 && m.Headroom < m.Cap()):
		fault("headroom", "%v must not be negative, and less than the capacity, %v", m.Headroom, m.Cap())
	case m.windowed():
		fault("headroom", "a fixed window can't keep headroom for urgent tasks, only a token bucket can")
	}
	m.validateWindow(fault)
	m.validateAdaptive(fault)
	m.Settle.validate(fault)
	if !(m.MaxReserved >= 0 && m.MaxReserved <= math.MaxFloat64) && m.MaxReserved != None {
		fault("max_reserved", "%v must not be negative; left out it is unlimited", m.MaxReserved)
	}
}

func (s SettleMode) validate(fault func(field, format string, args ...any)) {
	if s != "" && s != SettleAdjust && s != SettleKeep {
		fault("settle", "%q must be %q or %q", s, SettleAdjust, SettleKeep)
	}
}

// smallestAmount bounds rates and capacities from below: waits, which divide by them, stay finite, and with them the
// bucket.
const smallestAmount = 1e-15

func positive(x float64) bool { return x >= smallestAmount && x <= bucket.LargestAmount }

func (m Meter) validateWindow(fault func(field, format string, args ...any)) {
	switch m.Kind {
	case "", KindBucket:
		if m.Start != 0 || m.Spread {
			fault("start", "only windows start at a given time; this meter fills evenly")
		}
	case KindWindow:
		if m.Period > 0 && m.Period < time.Millisecond {
			fault("period", "%v is too short for a window, which lasts a millisecond or more", m.Period)
		}
		if m.Start%time.Millisecond != 0 {
			fault("start", "%v must be whole milliseconds", m.Start)
		}
		if m.Start != 0 && m.Spread {
			fault("start", "can't be given together with spread, which derives it from the bucket's name")
		}
	case KindInFlight: // see validateInFlight
	default:
		fault("kind", "%q must be %q or %q", m.Kind, KindBucket, KindWindow)
	}
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
			a.Max, m.Rate, bucket.LargestAmount)
	}
	if a.Ramp < 0 {
		fault("adaptive.ramp", "%v must not be negative; zero means %v", a.Ramp, bucket.RampDefault)
	}
}

// validateInFlight finds faults of a meter of calls in flight, and of one that has its name.
func (m Meter) validateInFlight(fault func(field, format string, args ...any)) {
	if !m.inFlight() || m.Name != MeterInFlight {
		fault(m.Name+".kind", "%q of meter %q: only the meter %q counts calls in flight, and it counts nothing else",
			m.Kind, m.Name, MeterInFlight)
		return
	}
	if m.Capacity != math.Trunc(m.Capacity) || !(m.Capacity >= 1 && m.Capacity <= bucket.InFlightMost) {
		fault(m.Name, "%v must be a whole number of calls, from 1 to %d: a bucket stores each call that runs",
			m.Cap(), bucket.InFlightMost)
	}
	if m != (Meter{Name: m.Name, Kind: m.Kind, Capacity: m.Capacity}) {
		fault(m.Name, "has a capacity alone: no rate, period, max_reserved, headroom, window or settle")
	}
}
