package simulate_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/reservations"
)

// perSecond is a limit of one meter named requests.
func perSecond(name string, rate, capacity float64) reservations.Limit {
	m := reservations.PerSecond("requests", rate)
	m.Capacity = capacity
	return reservations.Limit{Name: name, Meters: []reservations.Meter{m}}
}

// charge takes n requests of a limit.
func charge(limit string, n float64) reservations.Charge {
	return reservations.Charge{Limit: limit, Tokens: reservations.Tokens{"requests": n}}
}

// backlog is n calls at the start.
func backlog(n int, latency time.Duration, charges ...reservations.Charge) []simulate.Call {
	calls := make([]simulate.Call, n)
	for i := range calls {
		calls[i] = simulate.Call{Charges: charges, Latency: latency}
	}
	return calls
}

// run simulates, and fails the test on an error.
func run(tb testing.TB, limits []reservations.Limit, calls []simulate.Call, config simulate.Config) simulate.Result {
	tb.Helper()
	r, err := simulate.Run(limits, calls, config)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
