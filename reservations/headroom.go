package reservations

import (
	"fmt"
	"math"
	"time"
)

const (
	// OrdinaryShareDefault is the share of a limit that ordinary tasks keep while urgent ones wait.
	OrdinaryShareDefault = 0.1
	// headroomLeast is how much of the rate a headroom should hold: urgent tasks that arrive within it start at once.
	headroomLeast = 250 * time.Millisecond
)

// Share is OrdinaryShare, or OrdinaryShareDefault where it is zero.
func (l Limit) Share() float64 {
	if l.OrdinaryShare == 0 {
		return OrdinaryShareDefault
	}
	return l.OrdinaryShare
}

// validateHeadroom finds faults of the headrooms, and of the share that goes with them.
func (l Limit) validateHeadroom(fault func(field, format string, args ...any)) {
	if s := l.OrdinaryShare; s != 0 && !(s > 0 && s < 1) {
		fault("ordinary_share", "%v must be between 0 and 1, or zero for %v", s, OrdinaryShareDefault)
	}
	for _, m := range l.Meters {
		switch {
		case m.Headroom == 0:
		case !(m.Headroom > 0 && m.Headroom < m.Cap()):
			fault(m.Name+".headroom", "%v must not be negative, and less than the capacity, %v", m.Headroom, m.Cap())
		case m.windowed():
			fault(m.Name+".headroom", "a fixed window can't keep headroom for urgent tasks, only a token bucket can")
		}
	}
}

// headroomWarnings says what of the headrooms is allowed and probably not meant, one sentence each.
func (l Limit) headroomWarnings() (warnings []string) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("limit %q: ", l.Name)+fmt.Sprintf(format, args...))
	}
	if l.OrdinaryShare != 0 && !l.Rules().HasHeadroom() {
		warn("ordinary_share has no effect without the headroom of a meter")
	}
	for _, m := range l.Meters {
		switch least := m.Rules().RatePerSecond() * headroomLeast.Seconds(); {
		case m.Headroom == 0:
		case m.Headroom > m.Cap()/2:
			warn("the headroom of %s is more than half of its capacity (%v of %v): ordinary tasks of %v and more start only "+
				"when the bucket is full", m.Name, m.Headroom, m.Cap(), m.Cap()-m.Headroom)
		case m.Headroom < least:
			warn("the headroom of %s is less than what comes back in %v (%v of %v): urgent tasks will often wait",
				m.Name, headroomLeast, m.Headroom, math.Ceil(least*100)/100)
		}
	}
	return warnings
}
