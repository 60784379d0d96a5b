package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Kind 4: a requester around a vendor's client. It settles what a call really used, and a 429 stops all callers.
func ExampleLimiter_Do() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "vendor", Meters: []reservations.Meter{reservations.PerMinute("tokens", 1000)},
	})
	tooMany := errors.New("429 Too Many Requests")
	request := func(ask func() (used float64, err error)) error {
		estimate := []reservations.Charge{{Limit: "vendor", Tokens: reservations.Tokens{"tokens": 400}}}
		return limiter.Do(context.Background(), estimate, func(context.Context) (reservations.Tokens, error) {
			used, err := ask() // of the vendor's client
			if errors.Is(err, tooMany) {
				err = reservations.RetryAfter(20*time.Second, err) // of the answer's headers
			}
			return reservations.Tokens{"tokens": used}, err
		})
	}
	_ = request(func() (float64, error) { return 150, nil })
	left, _ := limiter.View(context.Background(), "vendor", "")
	fmt.Println(left.Meters[0].Level, "tokens left")
	fmt.Println(request(func() (float64, error) { return 0, tooMany }))
	left, _ = limiter.View(context.Background(), "vendor", "")
	fmt.Println("nothing starts for", left.Blocked)
	// Output:
	// 850 tokens left
	// 429 Too Many Requests
	// nothing starts for 20s
}
