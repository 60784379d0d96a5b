package worker_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// BenchmarkIdle measures what two idle workers send to Redis in ten seconds, by command. It then measures how long a
// lone task of an idle fleet waits for its handler. Run it with -benchtime 100x.
func BenchmarkIdle(b *testing.B) {
	options, err := redis.ParseURL(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{slow(1e6)}, reservations.Config{})
	if err != nil {
		b.Fatal(err)
	}
	began := make(chan time.Time, 1)
	for range 2 {
		w, failed := worker.New(client, limiter, worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if failed != nil {
			b.Fatal(failed)
		}
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { began <- time.Now(); return nil })
		if err = w.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = w.Stop(context.WithoutCancel(b.Context())) }()
	}
	producer, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		b.Fatal(err)
	}
	const idle = 10 * time.Second
	time.Sleep(time.Second)
	before := commands(b, client)
	time.Sleep(idle)
	after, sum := commands(b, client), 0
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n > 0 && name != "info" {
			b.Logf("%-12s %5.1f/s", name, float64(n)/idle.Seconds())
			sum += n
		}
	}
	var waits []time.Duration
	for b.Loop() {
		time.Sleep(100*time.Millisecond + rand.N(400*time.Millisecond))
		sent := time.Now()
		if _, err := producer.Enqueue(b.Context(), call{Cost: 1}); err != nil {
			b.Fatal(err)
		}
		waits = append(waits, (<-began).Sub(sent))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(sum)/idle.Seconds(), "idle-commands/s")
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
}

// commands returns how often Redis ran each command, also within scripts.
func commands(b *testing.B, client *redis.Client) map[string]int {
	b.Helper()
	text, err := client.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}
