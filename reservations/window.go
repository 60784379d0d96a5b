package reservations

import (
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// Kind says how a meter fills.
type Kind string

const (
	// KindBucket fills evenly, Rate tokens every Period: a token bucket. The zero value means the same.
	KindBucket Kind = "bucket"
	// KindWindow fills by Rate at once when a window of Period ends, up to the capacity: a fixed window. What a window leaves is
	// there for the next as far as the capacity goes beyond Rate, so with the capacity of zero nothing rolls over.
	KindWindow Kind = "window"
)

// windowPart is how much of a window rounding may take, where a wait is counted in windows.
const windowPart = 1e-6

// PerDay returns a meter of rate tokens a day, from midnight to midnight UTC, with an unlimited plan.
func PerDay(name string, rate float64) Meter {
	return Meter{Name: name, Kind: KindWindow, Rate: rate, Period: 24 * time.Hour, MaxReserved: Unlimited}
}

// windowed says whether the meter fills by windows.
func (m Meter) windowed() bool { return m.Kind == KindWindow }

// Offset is where in the Period, counted from the Unix epoch, windows start: at least zero and below Period.
func (m Meter) Offset() time.Duration {
	o := m.Start % m.Period
	if o < 0 {
		o += m.Period
	}
	return o
}

// SameWindows says whether a start at one moment may as well be made at a later one: all meters are fixed windows, and none of them ends between. Both are moments of the
// store's clock.
func (l Limit) SameWindows(from, to time.Time) bool {
	for _, m := range l.Meters {
		if !m.windowed() || m.within(from)+to.Sub(from) >= m.Period {
			return false
		}
	}
	return true
}

// full is the balance of a meter that has never been used: the capacity. Windows whose Start is still to come owe what comes until
// then, so that they are full at their Start.
func (m Meter) full(at time.Time) float64 {
	if early := m.Start - time.Duration(at.UnixNano()); m.windowed() && !at.IsZero() && early > 0 {
		return m.Cap() - m.Rate*math.Ceil(float64(early)/float64(m.Period))
	}
	return m.Cap()
}

// left is how many seconds are left at a moment of the window it falls into.
func (m Meter) left(at time.Time) float64 {
	return (m.Period - m.within(at)).Seconds()
}

// within is how far a moment is in its window.
func (m Meter) within(at time.Time) time.Duration {
	return m.shifted(at, -m.Offset()) % m.Period
}

// shifted is the time since an epoch that is a whole number of periods before the Unix epoch, so that it is positive for any
// moment from 1970 on.
func (m Meter) shifted(at time.Time, by time.Duration) time.Duration {
	return time.Duration(at.UnixNano()) + m.Period + by
}

// passed is how many tokens came back between two moments.
func (m Meter) passed(from, to time.Time) float64 {
	switch {
	case !to.After(from):
		return 0
	case m.windowed():
		return m.Rate * float64(m.shifted(to, -m.Offset())/m.Period-m.shifted(from, -m.Offset())/m.Period)
	default:
		return to.Sub(from).Seconds() * m.RatePerSecond()
	}
}

// gain is how many tokens come back in the w seconds after a moment.
func (m Meter) gain(at time.Time, w float64) float64 {
	if !m.windowed() {
		return w * m.RatePerSecond()
	}
	return m.Rate * max(0, math.Floor((w-m.left(at))/m.Period.Seconds()+1+windowPart))
}

// until is how many seconds after a moment x tokens have come back. Not positive where x is not.
func (m Meter) until(at time.Time, x float64) float64 {
	if !m.windowed() {
		return x / m.RatePerSecond()
	}
	windows := m.windows(x)
	if windows == 0 {
		return 0
	}
	return m.left(at) + (windows-1)*m.Period.Seconds()
}

// windows is how many windows have to end for x tokens to come back, never negative.
func (m Meter) windows(x float64) float64 { return max(0, math.Ceil(x/m.Rate-windowPart)) }

// forKey is the limit as it is for the bucket of key: meters with Spread have got their Start from the bucket's name.
func (l Limit) forKey(key string) Limit {
	if !slices.ContainsFunc(l.Meters, func(m Meter) bool { return m.Spread }) {
		return l
	}
	l.Meters = slices.Clone(l.Meters)
	for k, m := range l.Meters {
		if m.Spread {
			h := fnv.New64a()
			_, _ = h.Write([]byte(BucketName(l.Name, key) + "/" + m.Name))                              // a hash takes all
			ms := max(1, uint64(m.Period/time.Millisecond))                                             //nolint:gosec // validated as positive
			l.Meters[k].Start, l.Meters[k].Spread = time.Duration(h.Sum64()%ms)*time.Millisecond, false //nolint:gosec // below the period
		}
	}
	return l
}

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
			fault("start", "is given and to be derived from the bucket's name; it can only be one of them")
		}
	default:
		fault("kind", "%q must be %q or %q", m.Kind, KindBucket, KindWindow)
	}
}
