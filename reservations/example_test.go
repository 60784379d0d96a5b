package reservations_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// A call of a limited provider, from the limit to the settlement.
func Example() {
	ctx, store, call := context.Background(), memstore.New(nil), func() float64 { return 900 }

	limiter, err := reservations.New(store, []reservations.Limit{{Name: "openai", Meters: []reservations.Meter{
		reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000),
	}}}, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	charge := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 1500}}
	outcome, err := limiter.Start(ctx, charge)
	if err == nil && outcome.Started() {
		time.Sleep(outcome.Hold)
		used := call()
		_, err = limiter.Settle(ctx, outcome.Charge, reservations.Tokens{"tokens": used}, "task-1/1")
	}
	fmt.Println(outcome.State, outcome.Hold, err)
	// Output:
	// started 0s <nil>
}
