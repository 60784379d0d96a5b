package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// A person does not wait behind a batch: 40 of the 100 tokens are for urgent tasks alone.
func ExampleMeter_headroom() {
	requests := reservations.PerMinute("requests", 100)
	requests.Headroom = 40
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{Name: "openai", Meters: []reservations.Meter{requests}})

	batch := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 20}}
	person := batch
	person.Urgent = true
	for _, c := range []reservations.Charge{batch, batch, batch, batch, person} {
		grant, _ := limiter.Allow(context.Background(), c)
		fmt.Println(c.Urgent, grant.Started())
	}
	// Output:
	// false true
	// false true
	// false true
	// false false
	// true true
}
