package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// At most two calls run at once. A worker does all of this for its tasks.
func ExampleInFlight() {
	ctx := context.Background()
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "gpu", Meters: []reservations.Meter{reservations.InFlight(2), reservations.PerMinute("requests", 100)},
	})
	charge := reservations.Charge{Limit: "gpu", Tokens: reservations.Tokens{"requests": 1}} // and one call in flight

	for i := range 3 {
		outcome, _ := limiter.Start(ctx, charge)
		fmt.Println(outcome.State)
		if !outcome.Started() {
			continue
		}
		running, stop := limiter.Keep(ctx, nil, outcome.Charge) // make the call with this context
		if i == 1 {
			fmt.Println("second call ends:", running.Err())
			stop()
			_, _ = limiter.Settle(ctx, outcome.Charge, nil, "task-2/1")
			continue
		}
		defer stop()
	}
	// Output:
	// started
	// started
	// second call ends: <nil>
	// started
}
