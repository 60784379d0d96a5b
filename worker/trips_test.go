package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// trips counts the round trips of clients: a pipeline is one.
type trips struct {
	mu    sync.Mutex // guards the field below
	total int
	names map[string]int
}

func (c *trips) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = map[string]int{}
	}
	c.total++
	c.names[name]++
}

func (c *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(nameOf(cmd))
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count("pipeline of " + nameOf(cmds[0]))
		return next(ctx, cmds)
	}
}

// nameOf returns a name of a command, for a script with its beginning and its keys.
func nameOf(cmd redis.Cmder) string {
	args := cmd.Args()
	if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
		return cmd.Name()
	}
	names := []string{cmd.Name(), fmt.Sprint(args[1])[:6]}
	if n, _ := args[2].(int); n > 0 {
		for _, key := range args[3:min(len(args), 3+n)] {
			parts := strings.Split(fmt.Sprint(key), ":")
			names = append(names, parts[min(2, len(parts)-1)])
		}
	}
	return strings.Join(names, " ")
}

func (c *trips) log(t *testing.T, n int) float64 {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, 0, len(c.names))
	for name := range c.names {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return c.names[b] - c.names[a] })
	for _, name := range names {
		t.Logf("%6.2f  %s", float64(c.names[name])/float64(n), name)
	}
	return float64(c.total) / float64(n)
}

// countingStore counts the round trips that a store in a database would take.
type countingStore struct {
	*faultStore

	mu    sync.Mutex // guards total
	total int
}

func (s *countingStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.faultStore))
}

func (s *countingStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	s.mu.Lock()
	s.total++
	s.mu.Unlock()
	return bucket.Apply(ctx, s.faultStore, limit, key, requests)
}

// TestRoundTripsOfATask measures the round trips of a task with two workers and a limit of 100 a second, including
// the workers' other calls.
func TestRoundTripsOfATask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		counts := &trips{}
		limits := []reservations.Limit{{Name: "api", Meters: []reservations.Meter{
			{Name: "tokens", Rate: 100, Period: time.Second, Capacity: 10},
		}}}
		b := setup(t, limits...)
		b.client.AddHook(counts)
		stores := &countingStore{faultStore: b.store}
		for range 2 { // two processes, which share no round trip
			l, err := reservations.New(stores, limits, reservations.Config{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := worker.New(b.client, l, worker.Config{Events: b.events(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
			b.start(w)
			b.limiter = l
		}
		s, err := scheduler.New(b.client, b.limiter, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		many := make([]tasks.Args, n)
		for i := range many {
			many[i] = call{N: i, Cost: 1}
		}
		if _, err := s.EnqueueMany(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		for range n {
			receive(t, b.finishes)
		}
		cost := counts.log(t, n)
		asked := float64(stores.total) / n
		deliveries := 1 + float64(len(b.deferrals))/n
		t.Logf("%.2f round trips to Redis, %.2f to the store, %.2f deliveries a task", cost, asked, deliveries)
		if cost > 4.5 || asked > 1.1 || deliveries > 1.1 {
			t.Error("at most 4.5, 1.1 and 1.1 are wanted")
		}
	})
}
