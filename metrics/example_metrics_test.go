package metrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/worker"
)

// A program of your own exports the metrics of its worker, and the state of its fleet.
func Example() {
	server, err := miniredis.Run() // your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	store := memstore.New() // your buckets
	limits := []reservations.Limit{{Name: "tenant", Meters: []reservations.Meter{reservations.PerSecond("requests", 10)}}}

	m := metrics.New(metrics.Config{Keys: map[string]int{"tenant": 50}})
	defer m.Close()
	client.AddHook(m.RedisHook()) // measures calls of Redis
	limiter, err := reservations.New(m.Store(store), limits, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(client, limiter, worker.Config{Events: []func(worker.Event){m.Event}})
	if err != nil {
		log.Fatal(err)
	}
	if err = m.Watch(client, limiter); err != nil { // buckets, waitlists, queues
		log.Fatal(err)
	}
	m.WatchRecords(redisstore.Documents(client)) // batches, dead tasks
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)

	defer func() { _ = w.Stop(context.Background()) }()
	families, err := registry.Gather()
	for _, f := range families {
		if f.GetName() == "headway_meter_capacity_tokens" {
			fmt.Println(f.GetMetric()[0].GetGauge().GetValue(), err)
		}
	}
	// Output: 10 <nil>
}
