package reservations

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Kind says how a meter fills.
type Kind string

const (
	// KindBucket fills evenly, Rate tokens every Period: a token bucket. The zero value means the same.
	KindBucket Kind = "bucket"
	// KindWindow fills by Rate at once when a window of Period ends, up to the capacity: a fixed window. What a window
	// leaves is there for the next as far as the capacity goes beyond Rate; with a capacity of zero nothing rolls over.
	KindWindow Kind = "window"
)

// PerDay returns a meter of rate tokens a day, from midnight to midnight UTC, with unlimited reservations.
func PerDay(name string, rate float64) Meter {
	return Meter{Name: name, Kind: KindWindow, Rate: rate, Period: 24 * time.Hour}
}

// windowed says whether the meter fills by windows.
func (m Meter) windowed() bool { return m.Kind == KindWindow }

// forKey is the limit as it is for the bucket of key: meters with Spread get their Start from the bucket's name.
func (l Limit) forKey(key string) Limit {
	if !slices.ContainsFunc(l.Meters, func(m Meter) bool { return m.Spread }) {
		return l
	}
	l.Meters = slices.Clone(l.Meters)
	for k, m := range l.Meters {
		if m.Spread {
			h := fnv.New64a()
			_, _ = h.Write([]byte(bucket.Name(l.Name, key) + "/" + m.Name)) // a hash takes all
			ms := max(1, uint64(m.Period/time.Millisecond))                 //nolint:gosec // validated as positive
			start := time.Duration(h.Sum64()%ms) * time.Millisecond         //nolint:gosec // below the period
			l.Meters[k].Start, l.Meters[k].Spread = start, false
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
			fault("start", "can't be given together with spread, which derives it from the bucket's name")
		}
	case KindInFlight: // see validateInFlight
	default:
		fault("kind", "%q must be %q or %q", m.Kind, KindBucket, KindWindow)
	}
}
