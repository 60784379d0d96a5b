package dispatcher

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// A refund arrives while a granted start holds. The provider's balance stops at its capacity before the held start
// takes from it. After that start the bucket must not have more tokens than the provider.
func TestRefundDuringAHold(t *testing.T) {
	t.Parallel()
	limit := reservations.Limit{Name: "fleet", Meters: []reservations.Meter{
		tokenMeter("requests", 10, 10), tokenMeter("tokens", 1000, 1000),
	}}
	var b bucket.Bucket
	ask := func(ms int, r bucket.Request) (o bucket.Answer) {
		b, o = bucket.Step(b, bucket.Rules(limit), simBase.Add(time.Duration(ms)*time.Millisecond), r)
		return o
	}
	start := func(requests, tokens float64) bucket.Request {
		return bucket.Request{Op: bucket.OpStart, Promoted: true, Tokens: []float64{requests, tokens}}
	}
	ask(0, start(10, 800)) // long calls, with an estimate that is 800 too high
	held := ask(1000-100, start(10, 900))
	if !held.Started() || held.Hold != 100*time.Millisecond {
		t.Fatalf("%+v", held)
	}
	ask(950, bucket.Request{Op: bucket.OpSettle, Tokens: []float64{0, 800}})
	// At 1000 ms the held task takes its 900. Before that the provider has at most 1000, so 100 are left.
	for _, m := range ask(1000, bucket.Request{Op: bucket.OpRefresh}).Bucket.Meters {
		if m.Name == "tokens" && m.Started > 100+1e-6 {
			t.Errorf("%v tokens may start at 1000 ms beside the 900 that were held, above the capacity of 1000", m.Started)
		}
	}
}
