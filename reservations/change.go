package reservations

import (
	"slices"
	"time"
)

const (
	// slowest and fastest bound the speed of the clock of the line.
	slowest, fastest = 1e-6, 1e6
	// idleMost is how many meters a bucket remembers that its limit no longer has. Those that left first are forgotten first.
	idleMost = 16
)

// Filling is what of a meter's definition decides how much comes back, and when. The zero Filling is not known.
type Filling struct {
	// Rate is what comes back every second, or at the end of each window.
	Rate float64
	// Capacity is the capacity in force.
	Capacity float64
	// Period is that of a window; zero for a token bucket.
	Period time.Duration
	// Offset is where in the Period windows start, counted from the Unix epoch.
	Offset time.Duration
}

// Filling is how the meter fills.
func (m Meter) Filling() Filling {
	if m.windowed() {
		return Filling{Rate: m.Rate, Capacity: m.Cap(), Period: m.Period, Offset: m.Offset()}
	}
	return Filling{Rate: m.RatePerSecond(), Capacity: m.Cap()}
}

// meter is one that fills like that.
func (f Filling) meter() Meter {
	if f.Period > 0 {
		return Meter{Kind: KindWindow, Rate: f.Rate, Capacity: f.Capacity, Period: f.Period, Start: f.Offset}
	}
	return Meter{Rate: f.Rate, Capacity: f.Capacity, Period: time.Second}
}

// fits says whether the bucket was last used with the meters of l, filled as there.
func (b *Bucket) fits(l Limit) bool {
	if len(b.Meters) != len(l.Meters) {
		return false
	}
	for k := range l.Meters {
		if b.Meters[k].Name != l.Meters[k].Name || b.Meters[k].Filling != l.Meters[k].Filling() {
			return false
		}
	}
	return true
}

// change brings the bucket, whose ledgers are those of the moment from, to b.At and to the meters of another limit. A meter that is new to the
// bucket starts full. One that the limit lacks stands idle, as it was, until a limit has it again. Where tasks wait, the clock of the line runs
// at another speed from now on, so that the last of them comes when the new limit has room for it.
func (b *Bucket) change(l Limit, from time.Time) {
	ended := b.lineEnds(from)
	b.Express, b.Owed = nil, make([]float64, len(l.Meters)) // urgent tasks that wait are placed again
	was, idle := b.Meters, b.Idle
	b.Meters, b.Idle = make([]MeterState, len(l.Meters)), nil
	for k, m := range l.Meters {
		named := func(s MeterState) bool { return s.Name == m.Name }
		if i := slices.IndexFunc(was, named); i >= 0 {
			b.Meters[k] = b.refilled(m, was[i], from)
		} else if i := slices.IndexFunc(idle, func(s IdleMeter) bool { return named(s.MeterState) }); i >= 0 {
			b.Meters[k] = b.returned(m, idle[i])
		} else {
			b.Meters[k] = newState(m, b.At)
		}
	}
	b.order()
	keep := func(s MeterState, at time.Time) {
		if !slices.ContainsFunc(l.Meters, func(m Meter) bool { return m.Name == s.Name }) {
			b.Idle = append(b.Idle, IdleMeter{MeterState: s, At: earlier(at, b.At)})
		}
	}
	for _, s := range idle {
		keep(s.MeterState, s.At)
	}
	for _, s := range was {
		keep(b.unblocked(s), from)
	}
	b.Idle = b.Idle[max(0, len(b.Idle)-idleMost):]
	speed := b.Speed
	b.Speed = 1
	if ended > tolerance {
		wait, waits := max(ended-b.Blocked, Hold.Seconds()), max(b.lineNeeds(), Hold.Seconds())
		b.replace(was, waits/wait)
		b.Speed = min(max(speed*wait/waits, slowest), fastest)
	}
	b.Shift -= b.Blocked * (b.Speed - speed) // nobody comes before the block ends
}

// lineNeeds is how many seconds what the line asks of each meter needs, from now on or from the end of the block.
func (b *Bucket) lineNeeds() float64 {
	w := 0.
	for _, s := range b.Meters {
		m := s.Filling.meter()
		held := b.during(m)
		w = max(w, m.until(b.At, held+(1-s.Gap)*(-s.Ledgers[LedgerLine]-held))-b.Blocked)
	}
	return w
}

// replace moves the places in the meters that were not the scarce one, which only keep the time: all times after the block are times as long as they were.
func (b *Bucket) replace(was []MeterState, times float64) {
	for k := range b.Meters {
		s := &b.Meters[k]
		i := slices.IndexFunc(was, func(w MeterState) bool { return w.Name == s.Name })
		if s.Gap <= hardly || i < 0 || was[i].Filling.Rate == 0 {
			continue
		}
		m, asked := s.Filling.meter(), 1-s.Gap
		more := max(asked, times*m.RatePerSecond()/was[i].Filling.meter().RatePerSecond())
		held := b.during(m)
		for i := LedgerLate; i < LedgerCount; i++ {
			if debt := -s.Ledgers[i] - held; debt > 0 {
				s.Ledgers[i] = -debt*more - held
			}
		}
		if s.Gap = 0; more > 0 {
			s.Gap = max(0, 1-asked/more)
		}
	}
	b.order()
}

// lineEnds is how many seconds after b.At the line is empty, as the meters were filled so far, when the ledgers are those of the moment from.
func (b *Bucket) lineEnds(from time.Time) float64 {
	w := 0.
	for _, s := range b.Meters {
		if s.Filling.Rate > 0 {
			m := s.Filling.meter()
			w = max(w, m.until(b.At, -min(m.Capacity, s.Ledgers[LedgerLine]+m.passed(from, b.At))))
		}
	}
	return w
}

// refilled is a state whose ledgers are those of the moment from, brought to b.At and to how m fills; they are yet to be ordered. Nothing is minted by a change, nor by
// callers with different limits who take turns: a token bucket is filled at the lower of both rates until now, and never raised. A window whose
// capacity (its rate, where nothing rolls over) changes has that much more or less at once; one that starts at other times is filled as often as both windows ended.
func (b *Bucket) refilled(m Meter, s MeterState, from time.Time) MeterState {
	if s.Filling.Rate == 0 {
		s.Filling = m.Filling()
	}
	was := s.Filling.meter()
	held := b.during(was) - b.during(m) // at the end of a block there is as much as there would have been
	came, moved := 0., held
	switch {
	case !m.windowed() && was.windowed(): // empty when the block ends, as every token bucket
		moved = -b.during(m)
	case m.windowed() != was.windowed():
	case !m.windowed():
		came = max(0, b.At.Sub(from).Seconds()) * min(was.Rate, m.RatePerSecond())
	case m.Period == was.Period && m.Offset() == was.Start:
		came = was.passed(from, b.At)
		moved += m.Cap() - was.Capacity
	default:
		came = min(was.Rate, m.Rate) * min(was.passed(from, b.At)/was.Rate, m.passed(from, b.At)/m.Rate)
	}
	for i, balance := range s.Ledgers {
		by := moved
		if i == LedgerUse && m.windowed() && was.windowed() { // a block has taken nothing from it
			by -= held
		}
		s.Ledgers[i] = min(m.Cap(), min(s.Filling.Capacity, balance+came)+by)
	}
	s.Filling = m.Filling()
	return s
}

// unblocked is the state of a meter that goes, with the places as if nothing were blocked. What use has lost stays lost.
func (b *Bucket) unblocked(s MeterState) MeterState {
	if m := s.Filling.meter(); !m.windowed() {
		for i := LedgerLate; i < LedgerCount; i++ {
			s.Ledgers[i] += b.during(m)
		}
	}
	return s
}

// returned is a meter that stood idle, for one that a limit has again: the block in force, if any, counts for it from now on.
func (b *Bucket) returned(m Meter, s IdleMeter) MeterState {
	free := *b
	free.Blocked = 0
	state := free.refilled(m, s.MeterState, s.At)
	if b.Blocked > 0 {
		b.hold(m, &state.Ledgers, b.Blocked, b.Blocked)
	}
	return state
}

// during is how many tokens come back to a meter during the block: what a block has taken from its ledgers beforehand.
func (b *Bucket) during(m Meter) float64 { return m.gain(b.At, b.Blocked) }

// newState is a meter that has never been used.
func newState(m Meter, at time.Time) MeterState {
	s := MeterState{Name: m.Name, Filling: m.Filling()}
	for i := range s.Ledgers {
		s.Ledgers[i] = m.full(at)
	}
	return s
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
