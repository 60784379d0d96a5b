package reservations_test

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// A person does not wait behind a batch: 40 of the 100 tokens are for urgent tasks alone.
func ExampleMeter_headroom() {
	ctx := context.Background()
	requests := reservations.PerMinute("requests", 100)
	requests.Headroom = 40
	limiter, err := reservations.New(memstore.New(nil), []reservations.Limit{{Name: "openai", Meters: []reservations.Meter{requests}}}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	batch := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 20}}
	person := batch
	person.Urgent = true
	for _, c := range []reservations.Charge{batch, batch, batch, batch, person} {
		outcome, err := limiter.Begin(ctx, c, reservations.Place{})
		if err != nil {
			panic(err)
		}
		fmt.Println(c.Urgent, outcome.State)
	}
	// Output:
	// false started
	// false started
	// false started
	// false reserved
	// true started
}
