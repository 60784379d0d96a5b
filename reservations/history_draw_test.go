package reservations_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/reservations"
)

// limitNames are those of a history's limits, in the order in which a task names them.
var limitNames = []string{"tenant", "model", "day", "provider"}

func drawLimits(t *rapid.T) []reservations.Limit {
	var limits []reservations.Limit
	for _, name := range limitNames[4-rapid.SampledFrom([]int{1, 1, 2, 2, 3, 4}).Draw(t, "limits"):] {
		l := reservations.Limit{
			Name:    name,
			Settle:  rapid.SampledFrom([]reservations.SettleMode{"", reservations.SettleKeep}).Draw(t, "settle"),
			MaxWait: rapid.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, time.Minute}).Draw(t, "max_wait"),
			Shards:  rapid.SampledFrom([]int{0, 1, 1, 2, 3, 4}).Draw(t, "shards"),
		}
		for k := range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "meters") {
			l.Meters = append(l.Meters, drawMeter(t, fmt.Sprintf("m%d", k)))
		}
		limits = append(limits, l)
	}
	return limits
}

// drawMeter draws rates that all numbers of shards divide.
func drawMeter(t *rapid.T, name string) reservations.Meter {
	m := reservations.Meter{
		Name:   name,
		Rate:   rapid.SampledFrom([]float64{12, 60, 1200}).Draw(t, "rate"),
		Period: rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(t, "period"),
		Settle: rapid.SampledFrom([]reservations.SettleMode{"", "", reservations.SettleAdjust, reservations.SettleKeep}).Draw(t, "settle"),
	}
	m.Capacity = m.Rate * rapid.SampledFrom([]float64{0, 1. / 3, 1, 2}).Draw(t, "capacity")
	switch rapid.SampledFrom([]string{"none", "little", "some", "unlimited"}).Draw(t, "max_reserved") {
	case "little":
		m.MaxReserved = m.Cap() / 2
	case "some":
		m.MaxReserved = 5 * m.Rate
	case "unlimited":
		m.MaxReserved = reservations.Unlimited
	}
	if rapid.IntRange(0, 2).Draw(t, "window") == 0 {
		drawWindow(t, &m)
	}
	return m
}

func drawWindow(t *rapid.T, m *reservations.Meter) {
	m.Kind, m.Start, m.Spread = reservations.KindWindow, 0, false
	switch rapid.SampledFrom([]string{"zero", "given", "spread", "future"}).Draw(t, "start") {
	case "given":
		m.Start = -time.Hour - 300*time.Millisecond
	case "spread":
		m.Spread = true
	case "future":
		m.Start = time.Duration(virtualStart.UnixNano()) + 20*time.Second
	}
}

// drawChange draws limits with the names of others: other rates, capacities, plans, meters, and other windows or other sizes of windows: who takes turns
// with three limits, whose windows differ in size and in times, may have the difference in size more than once.
func (h *history) drawChange(t *rapid.T, limits []reservations.Limit) []reservations.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		l := &limits[i]
		l.Meters = slices.Clone(l.Meters)
		l.MaxWait = rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, time.Minute}).Draw(t, "max_wait")
		for k := range l.Meters {
			m := &l.Meters[k]
			if !h.moves || m.Kind != reservations.KindWindow {
				m.Rate *= rapid.SampledFrom([]float64{.5, 1, 1, 2, 10}).Draw(t, "times")
				m.Capacity *= rapid.SampledFrom([]float64{.5, 1, 1, 3}).Draw(t, "times")
			}
			if rapid.IntRange(0, 9).Draw(t, "plan") == 0 {
				m.MaxReserved = rapid.SampledFrom([]float64{0, m.Rate, reservations.Unlimited}).Draw(t, "max_reserved")
			}
			if m.Kind == reservations.KindWindow && h.moves && rapid.IntRange(0, 2).Draw(t, "moved") == 0 {
				m.Period = rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(t, "period")
				drawWindow(t, m)
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "meters") == 0 {
			if len(l.Meters) > 1 {
				l.Meters = l.Meters[1:]
			} else {
				l.Meters = append(l.Meters, drawMeter(t, "m9"))
			}
		}
	}
	return limits
}

func (h *history) drawOverride(t *rapid.T, limits []reservations.Limit) reservations.Override {
	l := rapid.SampledFrom(limits).Draw(t, "limit")
	m := rapid.SampledFrom(l.Meters).Draw(t, "meter")
	if h.moves && m.Kind == reservations.KindWindow {
		return reservations.Override{Limit: l.Name, Meter: m.Name, Rate: m.Rate, Period: m.Period}
	}
	return reservations.Override{
		Limit: l.Name, Meter: m.Name, Key: rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"),
		Rate: m.Rate * rapid.SampledFrom([]float64{.5, 1, 2, 10}).Draw(t, "times"), Period: m.Period,
		Capacity: m.Cap() * rapid.SampledFrom([]float64{0, .5, 2}).Draw(t, "times"),
	}
}

// drawCharges draws what a task takes: something of one limit or several, narrowest first.
func (h *history) drawCharges(t *rapid.T) []reservations.Charge {
	limits := h.limits[0]
	var charges []reservations.Charge
	for i, l := range limits {
		if i < len(limits)-1 && rapid.Bool().Draw(t, "without") {
			continue
		}
		charges = append(charges, h.drawCharge(t, l))
	}
	return charges[max(0, len(charges)-3):]
}

func (h *history) drawCharge(t *rapid.T, l reservations.Limit) reservations.Charge {
	c := reservations.Charge{Limit: l.Name, Key: rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key"), Tokens: reservations.Tokens{}}
	parts := float64(max(1, l.Shards))
	for _, m := range l.Meters {
		n := m.Cap() / parts * rapid.SampledFrom([]float64{0, .01, .1, .1, .5, 1, 1.5}).Draw(t, "charge")
		if parts > 1 {
			n = min(n, m.Cap()/parts)
		}
		c.Tokens[m.Name] = min(n, m.Largest())
	}
	return c
}
