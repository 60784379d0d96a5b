package reservations_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// newLimiter is a Limiter on a store whose clock is now.
func newLimiter(now *time.Time, limit reservations.Limit) *reservations.Limiter {
	*now = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.NewAt(func() time.Time { return *now })
	limiter, err := reservations.New(store, []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	return limiter
}

// A charge that can never be served is refused at once.
func ExampleLimiter_Validate() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{Name: "openai", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1000, Period: time.Minute, MaxReserved: reservations.None},
	}})
	err := limiter.Validate(reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"tokens": 4000}})
	fmt.Println(errors.Is(err, reservations.ErrChargeTooLarge), reservations.IsPermanent(err))
	// Output:
	// true true
}
