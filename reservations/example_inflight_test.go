package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// At most two calls run at once. Limiter.Do does all of this for its call, and a worker for its tasks.
func ExampleInFlight() {
	ctx := context.Background()
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "gpu", Meters: []reservations.Meter{reservations.InFlight(2), reservations.PerMinute("requests", 100)},
	})
	charge := reservations.Charge{Limit: "gpu", Tokens: reservations.Tokens{"requests": 1}} // and one call in flight

	first, _ := limiter.Allow(ctx, charge)
	second, _ := limiter.Allow(ctx, charge)
	third, _ := limiter.Allow(ctx, charge)
	fmt.Println(first.Started(), second.Started(), third.Started())

	running, stop := second.Keep(ctx) // make the call with this context
	fmt.Println("second call ends:", running.Err())
	stop()
	_ = second.Settle(ctx, nil)

	third, _ = limiter.Allow(ctx, charge)
	fmt.Println(third.Started())
	// Output:
	// true true false
	// second call ends: <nil>
	// true
}
