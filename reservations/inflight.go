package reservations

import "math"

// KindInFlight counts calls that run: nothing refills the meter but the end of a call. A start takes slots by a lease
// that its process renews, see Limiter.Keep; a settlement ends the lease, and so does its expiry.
const KindInFlight Kind = "in_flight"

const (
	// MeterInFlight is the name of the one meter of KindInFlight that a limit may have.
	MeterInFlight = "in_flight"
	// InFlightMost bounds the calls in flight of a limit: a bucket stores each of them.
	InFlightMost = 1000
)

// InFlight returns a meter that lets at most that many calls run at once. A charge takes one of them unless its Tokens
// name MeterInFlight. The meter promises nothing to waiting tasks, and no task holds for it.
func InFlight(calls int) Meter {
	return Meter{Name: MeterInFlight, Kind: KindInFlight, Capacity: float64(calls)}
}

func (m Meter) inFlight() bool { return m.Kind == KindInFlight }

// validateInFlight finds faults of a meter of calls in flight, and of one that has its name.
func (m Meter) validateInFlight(fault func(field, format string, args ...any)) {
	if !m.inFlight() || m.Name != MeterInFlight {
		fault(m.Name+".kind", "%q of meter %q: only the meter %q counts calls in flight, and it counts nothing else",
			m.Kind, m.Name, MeterInFlight)
		return
	}
	if m.Capacity != math.Trunc(m.Capacity) || !(m.Capacity >= 1 && m.Capacity <= InFlightMost) {
		fault(m.Name, "%v must be a whole number of calls, from 1 to %d: a bucket stores each call that runs",
			m.Cap(), InFlightMost)
	}
	if m != (Meter{Name: m.Name, Kind: m.Kind, Capacity: m.Capacity}) {
		fault(m.Name, "has a capacity alone: no rate, period, max_reserved, headroom, window or settle")
	}
}
