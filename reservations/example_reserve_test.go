package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// newLimiter is a Limiter on a store whose clock is now.
func newLimiter(now *time.Time, limit reservations.Limit) *reservations.Limiter {
	*now = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.New(func() time.Time { return *now })
	limiter, err := reservations.New(store, []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	return limiter
}

// Two tasks share a limit of one request a second. The second one waits with a reservation, and starts when it is
// promoted.
func ExampleLimiter_Start() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "search", Meters: []reservations.Meter{reservations.PerSecond("requests", 1)},
	})
	ctx := context.Background()
	charge := reservations.Charge{Limit: "search", Tokens: reservations.Tokens{"requests": 1}}

	first, _ := limiter.Start(ctx, charge)
	fmt.Println("first:", first.State)
	second, _ := limiter.Start(ctx, charge)
	fmt.Println("second:", second.State, "for", second.Wait())

	now = second.RetryAt
	second, _ = limiter.Start(ctx, second.Charge)
	fmt.Println("second:", second.State)
	// Output:
	// first: started
	// second: reserved for 1s
	// second: started
}

// The tokens of a batch are reserved before its tasks are enqueued.
func ExampleLimiter_Reserve() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{Name: "search", Meters: []reservations.Meter{
		{Name: "requests", Rate: 2, Period: time.Second, Capacity: 1, MaxReserved: reservations.Unlimited},
	}})
	charge := reservations.Charge{Limit: "search", Key: "tenant-7", Tokens: reservations.Tokens{"requests": 1}}
	outcomes, _ := limiter.Reserve(context.Background(), charge, charge, charge)
	for _, o := range outcomes {
		fmt.Println(o.State, o.Wait())
	}
	// Output:
	// reserved 0s
	// reserved 500ms
	// reserved 1s
}

// A charge that can never be served is refused at once.
func ExampleLimiter_Validate() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{Name: "openai", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1000, Period: time.Minute, MaxReserved: reservations.NoReserved},
	}})
	err := limiter.Validate(reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"tokens": 4000}})
	fmt.Println(errors.Is(err, reservations.ErrChargeTooLarge), reservations.IsPermanent(err))
	// Output:
	// true true
}
