package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// A chat request reserves more tokens than it uses. When its real cost is settled, the task behind it may come sooner.
func ExampleLimiter_Settle() {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.New(func() time.Time { return now })
	limiter, err := reservations.New(store, []reservations.Limit{{
		Name:   "openai",
		Meters: []reservations.Meter{reservations.PerMinute("requests", 60), reservations.PerMinute("tokens", 6000)},
	}}, reservations.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	chat := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 5000}}

	first, _ := limiter.Begin(ctx, chat, reservations.Place{})
	second, _ := limiter.Begin(ctx, chat, reservations.Place{})
	fmt.Println("first:", first.State)
	fmt.Println("second:", second.State, "for", second.Wait())

	settled, _ := limiter.Settle(ctx, chat, reservations.Tokens{"tokens": 2000}, "")
	fmt.Println("the line moves by", settled.Shift-second.Shift)

	now = now.Add(second.Wait() - (settled.Shift - second.Shift))
	second, _ = limiter.Begin(ctx, chat, second.Place())
	fmt.Println("second:", second.State)
	// Output:
	// first: started
	// second: reserved for 40s
	// the line moves by 30s
	// second: started
}
