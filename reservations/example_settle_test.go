package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// A chat request takes more tokens than it uses. When its real cost is settled, the next call can start earlier.
func ExampleGrant_Settle() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "openai", Meters: []reservations.Meter{reservations.PerMinute("tokens", 6000)},
	})
	ctx := context.Background()
	chat := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"tokens": 5000}}

	first, _ := limiter.Allow(ctx, chat)
	second, _ := limiter.Allow(ctx, chat)
	fmt.Println(first.Started(), "- the next one waits", second.Outcomes()[0].Wait())

	_ = first.Settle(ctx, reservations.Tokens{"tokens": 2000})
	second, _ = limiter.Allow(ctx, chat)
	fmt.Println("settled - the next one waits", second.Outcomes()[0].Wait())
	// Output:
	// true - the next one waits 40s
	// settled - the next one waits 10s
}
