package headway_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// A requester around a vendor's client waits in line with the tasks of the fleet. It settles what a call really used,
// and a 429 stops all callers and tasks of the limit.
func ExampleClient_Do() {
	client, end := newRedis()
	defer end()
	hw, err := headway.New(client, headway.Config{
		Limits: headway.Limits{"vendor": {headway.PerSecond("tokens", 4000)}},
		Worker: worker.Config{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	tooMany := errors.New("429 Too Many Requests")
	request := func(ctx context.Context, ask func() (used float64, err error)) error {
		estimate := []headway.Charge{{Limit: "vendor", Tokens: headway.Tokens{"tokens": 400}}}
		return hw.Do(ctx, estimate, func(context.Context) (headway.Tokens, error) {
			used, failed := ask() // of the vendor's client
			if errors.Is(failed, tooMany) {
				failed = reservations.RetryAfter(5*time.Minute, failed) // of the answer's headers
			}
			return headway.Tokens{"tokens": used}, failed
		})
	}
	ctx := context.Background()
	fmt.Println(request(ctx, func() (float64, error) { return 150, nil }))
	fmt.Println(request(ctx, func() (float64, error) { return 0, tooMany }))
	limits, err := hw.Limits(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nothing starts for", limits[0].Buckets[0].Blocked.Round(time.Minute))
	if err := hw.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// 429 Too Many Requests
	// nothing starts for 5m0s
}
