package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// Two tasks share a limit of one request a second. The second one is given a time, comes back then, and starts.
func ExampleLimiter_Begin() {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.New(func() time.Time { return now })
	limiter, err := reservations.New(store, []reservations.Limit{{
		Name:   "search",
		Meters: []reservations.Meter{reservations.PerSecond("requests", 1)},
	}}, reservations.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	charge := reservations.Charge{Limit: "search", Tokens: reservations.Tokens{"requests": 1}}

	first, _ := limiter.Begin(ctx, charge, reservations.Place{})
	fmt.Println("first:", first.State)
	second, _ := limiter.Begin(ctx, charge, reservations.Place{})
	fmt.Println("second:", second.State, "come back in", second.Wait())

	now = now.Add(second.Wait())
	second, _ = limiter.Begin(ctx, charge, second.Place())
	fmt.Println("second:", second.State)
	// Output:
	// first: started
	// second: reserved come back in 1s
	// second: started
}

// Places are reserved for a batch before its tasks are enqueued, so that each goes straight to its time.
func ExampleLimiter_ReserveMany() {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.New(func() time.Time { return now })
	limiter, err := reservations.New(store, []reservations.Limit{{
		Name:   "search",
		Meters: []reservations.Meter{{Name: "requests", Rate: 2, Period: time.Second, Capacity: 1, MaxReserved: reservations.Unlimited}},
	}}, reservations.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := reservations.Charge{Limit: "search", Key: "tenant-7", Tokens: reservations.Tokens{"requests": 1}}
	outcomes, _ := limiter.ReserveMany(context.Background(), []reservations.Charge{charge, charge, charge, charge})
	for _, o := range outcomes {
		fmt.Println(o.State, o.Wait())
	}
	// Output:
	// reserved 0s
	// reserved 500ms
	// reserved 1s
	// reserved 1.5s
}

// A charge that could never be served is refused at once, not made to wait forever.
func ExampleLimiter_Validate() {
	limiter, err := reservations.New(memstore.New(nil), []reservations.Limit{{
		Name:   "openai",
		Meters: []reservations.Meter{{Name: "tokens", Rate: 1000, Period: time.Minute}},
	}}, reservations.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = limiter.Validate(reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"tokens": 4000}})
	fmt.Println(err)
	fmt.Println("permanent:", reservations.IsPermanent(err))
	// Output:
	// reservations: charge is too large: tokens of openai: 4000 tokens are more than can ever be served (capacity 1000 + max_reserved 0)
	// permanent: true
}
