package reservations_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// Tests keep buckets in memory and give them a clock, so no test waits.
func Example_clock() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.NewAt(func() time.Time { return now })
	limiter, err := reservations.New(store, []reservations.Limit{
		{Name: "mail", Meters: []reservations.Meter{{Name: "messages", Rate: 1, Period: time.Minute}}},
	}, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	mail := reservations.Charge{Limit: "mail", Tokens: reservations.Tokens{"messages": 1}}
	for range 3 {
		g, err := limiter.Allow(context.Background(), mail)
		outcome := g.Outcomes()[0]
		fmt.Println(outcome.State, outcome.RetryAt.Format(time.TimeOnly), err)
		now = now.Add(30 * time.Second)
	}
	// Output:
	// started 00:00:00 <nil>
	// refused 12:01:00 <nil>
	// started 00:00:00 <nil>
}
