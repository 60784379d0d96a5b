package reservations

// OrdinaryShareDefault is the share of a limit that ordinary tasks keep while urgent ones wait.
const OrdinaryShareDefault = 0.1

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
