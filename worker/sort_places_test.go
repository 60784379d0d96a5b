package worker_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// laggingStore is a store whose answers take up to 50 ms.
type laggingStore struct{ *memstore.Store }

func (s laggingStore) Apply(
	ctx context.Context, l bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	<-time.After(rand.N(50 * time.Millisecond))
	return s.Store.Apply(ctx, l, key, requests)
}

// process starts a worker with its own Redis client and limiter, on the store of the bundle.
func (b *bundle) process(concurrency int, limits ...reservations.Limit) {
	b.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: b.addr, ReadTimeout: patience})
	b.t.Cleanup(func() { _ = client.Close() })
	limiter, err := reservations.New(laggingStore{b.store.Store}, limits, reservations.Config{})
	if err != nil {
		b.t.Fatal(err)
	}
	config := worker.Config{Concurrency: concurrency, Events: b.events(), Logger: slog.New(slog.DiscardHandler)}
	w, err := worker.New(client, limiter, config)
	if err != nil {
		b.t.Fatal(err)
	}
	worker.Handle(w, ok)
	b.start(w)
}

// positions returns the places of tasks in their waitlist, from 1, or zero for a task that does not wait.
func (b *bundle) positions(ids []string) []int {
	b.t.Helper()
	list, all := waitlist.New(b.client), make([]int, len(ids))
	for i, id := range ids {
		p, err := list.Position(b.t.Context(), waitlist.Task{Queue: "default", ID: id})
		if err != nil {
			b.t.Fatal(err)
		}
		all[i] = p.Rank
	}
	return all
}

// Several processes sort an unreserved backlog, while their handlers get tasks of it. The store answers in random
// order. At most 1 % of the tasks pass a task that arrived before them.
func TestSortKeepsPlaces(t *testing.T) {
	t.Parallel()
	const n, capacity = 3000, 5
	limit := slow(capacity)
	b := setupOn(t, testenv.StartRedisServer(t).Addr(), limit)
	many := make([]tasks.Args, n)
	for i := range many {
		many[i] = call{N: i, Cost: 1}
	}
	if _, err := b.scheduler.EnqueueMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	infos, err := b.inspector.ListPendingTasks("default", asynq.PageSize(n)) // in the order of arrival
	if err != nil || len(infos) != n {
		t.Fatalf("%d tasks are pending, %v", len(infos), err)
	}
	ids := make([]string, n)
	for i, info := range infos {
		ids[i] = info.ID
	}
	for range 3 {
		b.process(10, limit)
	}
	eventually(t, "all others wait", func() bool { return b.waiting() == n-capacity })
	positions := b.positions(ids)
	most, task := 0, 0
	for i, at := range positions {
		lost := 0
		for _, later := range positions[i+1:] {
			if later > 0 && later < at {
				lost++
			}
		}
		if lost > most {
			most, task = lost, i
		}
	}
	t.Logf("%d tasks were delivered; task %d lost most places: %d", len(b.deferrals), task, most)
	if most > n/100 {
		t.Errorf("task %d lost %d places of %d, wanted at most 1 %%", task, most, n)
	}
}
