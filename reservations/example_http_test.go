package reservations_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// Kind 1: a token bucket around the calls of an HTTP client. With mongostore all processes share it.
func ExampleLimiter_Wait() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	api := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "requests", Rate: 20, Period: time.Second, Capacity: 1},
	}}
	limiter, _ := reservations.New(memstore.New(), []reservations.Limit{api}, reservations.Config{})
	charge := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}
	began := time.Now()
	for range 2 {
		_, _ = limiter.Wait(context.Background(), charge) // one line before each call
		answer, err := http.Get(server.URL)               //nolint:noctx // an example
		if err != nil {
			panic(err)
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
	fmt.Println("at least 50 ms:", time.Since(began) >= 50*time.Millisecond) //gate:ok a lower bound
	// Output:
	// 404
	// 404
	// at least 50 ms: true
}
