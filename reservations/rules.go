package reservations

import (
	"cmp"
	"math"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Rules is the limit as a bucket has it, for Headway's own packages.
func (l Limit) Rules() bucket.Limit {
	rules := bucket.Limit{
		Name: l.Name, Meters: make([]bucket.Meter, len(l.Meters)),
		MaxWait: l.MaxWait, MaxBlock: cmp.Or(l.MaxBlock, MaxBlockDefault),
		OrdinaryShare: cmp.Or(l.OrdinaryShare, OrdinaryShareDefault),
	}
	for k, m := range l.Meters {
		rules.Meters[k] = m.rules()
	}
	return rules
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
	switch m.MaxReserved {
	case Unlimited:
		rules.MaxReserved = math.Inf(1)
	case NoReserved:
	default:
		rules.MaxReserved = m.MaxReserved
	}
	return rules
}
