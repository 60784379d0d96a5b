package dispatcher

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// simBase is the moment at which the tests of pure rules begin.
var simBase = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// tokenMeter returns a meter of tokens a second that promises nothing ahead of its time.
func tokenMeter(name string, rate, capacity float64) reservations.Meter {
	m := reservations.PerSecond(name, rate)
	m.Capacity, m.MaxReserved = capacity, reservations.None
	return m
}

// hundred is a limit of 100 a second with a capacity of 100.
func hundred() reservations.Limit {
	return reservations.Limit{Name: "fleet", Meters: []reservations.Meter{tokenMeter("tokens", 100, 100)}}
}
