package dashboard_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/dashboard"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/reservations/redisstore"
)

// A program serves the page of its fleet below a path of its own server.
func ExampleHandler() {
	server, err := miniredis.Run() // your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	hw, err := headway.New(client, headway.Config{
		Limits: headway.Limits{"openai": {headway.PerMinute("requests", 500)}},
		Store:  memstore.New(), // leave it out to keep the buckets in Redis
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // of the whole program
	page, err := dashboard.Handler(ctx, client, hw.Limiter(), dashboard.Config{
		AllowChanges: true, User: "ops", Password: password, // or Token, or Guarded
		Records: redisstore.Documents(client), // batches and dead tasks
		Rates:   redisstore.New(client),       // where rates are set
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/fleet/", http.StripPrefix("/fleet", page))

	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/fleet/limit?name=openai", nil)
	request.SetBasicAuth("ops", password)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	stop()
	// Output: 200
}
