package simulate_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/reservations"
)

// openai is the limit of headway.yaml.
func openai() reservations.Limit {
	tokens := reservations.PerMinute("tokens", 200_000)
	tokens.Capacity = 20_000
	requests := reservations.PerMinute("requests", 500)
	return reservations.Limit{Name: "openai", Meters: []reservations.Meter{requests, tokens}}
}

// BenchmarkDay simulates a day with 100 000 calls that use less than they reserve, some of which wait.
func BenchmarkDay(b *testing.B) {
	used := simulate.Range{Least: .6, Most: 1}
	pattern := simulate.Pattern{
		Buckets: []reservations.Charge{{Limit: "openai"}}, Tokens: simulate.Range{Least: 2000, Most: 3400}, Used: &used,
		Share: true, Latency: simulate.Range{Least: 2, Most: 20},
	}
	limits := []reservations.Limit{openai()}
	arrivals := simulate.Arrivals{Rate: 100_000. / 86_400, For: 24 * time.Hour, Seed: 1}
	var r simulate.Result
	for b.Loop() {
		calls, err := arrivals.Calls(pattern, limits)
		if err != nil {
			b.Fatal(err)
		}
		r = run(b, limits, calls, simulate.Config{Seed: 1})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(r.Calls), "ns/call")
	b.ReportMetric(r.Meters[0].Use*100, "%use")
	b.ReportMetric(r.Waits.P99.Seconds(), "p99-s")
}
