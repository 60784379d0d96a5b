package simulate

import (
	"fmt"
	"slices"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Variant is another set of limits for the same calls.
type Variant struct {
	// Name says what differs: "openai doubled".
	Name   string
	Limits []reservations.Limit
}

// Variants are what a larger plan of each limit changes, and one more key of each provider. Limits are the ones that
// the calls take from, at most most of them; a provider's limit is the last one of a call.
func Variants(limits []reservations.Limit, calls []Call, r Result, most int) (all []Variant) {
	provider := map[string]bool{}
	for _, c := range calls {
		provider[c.Charges[len(c.Charges)-1].Limit] = true
	}
	var names []string // the scarcest first
	for _, m := range r.Meters {
		if !slices.Contains(names, m.Limit) && len(names) < most {
			names = append(names, m.Limit)
		}
	}
	add := func(text, name string, change func(reservations.Limit) reservations.Limit) {
		changed := slices.Clone(limits)
		for i, l := range changed {
			if l.Name == name {
				changed[i] = change(l)
			}
		}
		all = append(all, Variant{Name: fmt.Sprintf(text, name), Limits: changed})
	}
	for _, name := range names {
		add("%s doubled", name, Doubled)
		if provider[name] {
			add("one more key of %s", name, OneMoreKey)
		}
	}
	return all
}

// Doubled is a limit with twice the rate and the capacity of each meter, and twice the calls in flight.
func Doubled(l reservations.Limit) reservations.Limit {
	l.Meters = slices.Clone(l.Meters)
	for k, m := range l.Meters {
		m.Rate, m.Headroom, m.Adaptive.Max = 2*m.Rate, 2*m.Headroom, 2*m.Adaptive.Max
		if m.Capacity != reservations.None {
			m.Capacity *= 2
		}
		if m.MaxReserved != reservations.None {
			m.MaxReserved *= 2
		}
		if m.Kind == reservations.KindInFlight {
			m.Capacity = min(m.Capacity, bucket.InFlightMost)
		}
		l.Meters[k] = m
	}
	return l
}

// OneMoreKey is a limit beside which there is a second bucket like it: the account of another key. A limit with shards
// has twice as many.
func OneMoreKey(l reservations.Limit) reservations.Limit {
	l = Doubled(l)
	l.Shards = min(2*max(1, l.Shards), bucket.MaxShards)
	return l
}
