package reservations_test

import (
	"context"
	"fmt"
	"log"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// A call of a limited provider, from the limit to the settlement.
func Example() {
	ctx, store, call := context.Background(), memstore.New(), func() float64 { return 900 }

	limiter, err := reservations.New(store, []reservations.Limit{{Name: "openai", Meters: []reservations.Meter{
		reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000),
	}}}, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	charge := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 1500}}
	grant, err := limiter.Wait(ctx, charge) // Limiter.Do has all that follows in one call
	if err != nil {
		log.Fatal(err)
	}
	used := call()
	err = grant.Settle(ctx, reservations.Tokens{"tokens": used})
	fmt.Println(grant.Started(), used, err)
	// Output:
	// true 900 <nil>
}
