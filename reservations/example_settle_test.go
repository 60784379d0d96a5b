package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// A chat request takes more tokens than it uses. When its real cost is settled, the next task can start earlier.
func ExampleLimiter_Settle() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "openai", Meters: []reservations.Meter{reservations.PerMinute("tokens", 6000)},
	})
	ctx := context.Background()
	chat := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"tokens": 5000}}

	first, _ := limiter.Start(ctx, chat)
	second, _ := limiter.Check(ctx, chat)
	fmt.Println(first.State, "- the next one waits", second.Wait())

	_, _ = limiter.Settle(ctx, first.Charge, reservations.Tokens{"tokens": 2000}, "task-1/1")
	second, _ = limiter.Check(ctx, chat)
	fmt.Println("settled - the next one waits", second.Wait())
	// Output:
	// started - the next one waits 40s
	// settled - the next one waits 10s
}
