package reservations_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Kind 3: take and reset in a web handler.
func ExampleLimiter_Allow() {
	var now time.Time
	limiter := newLimiter(&now, reservations.Limit{
		Name: "visitors", Meters: []reservations.Meter{reservations.PerMinute("requests", 1)},
	})
	visit := func(ip string) {
		w := httptest.NewRecorder()
		charge := reservations.Charge{Limit: "visitors", Key: ip, Tokens: reservations.Tokens{"requests": 1}}
		g, _ := limiter.Allow(context.Background(), charge) // several charges: all or nothing
		o := g.Outcomes()[0]
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(int(o.Remaining()["requests"])))
		if !g.Started() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), "left, again in", o.Wait())
	}
	visit("192.0.2.1")
	visit("192.0.2.1")
	_ = limiter.Reset(context.Background(), "visitors", "192.0.2.1")
	visit("192.0.2.1")
	// Output:
	// 200 0 left, again in 0s
	// 429 0 left, again in 1m0s
	// 200 0 left, again in 0s
}
