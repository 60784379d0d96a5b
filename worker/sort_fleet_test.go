package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// job is a task with the limits of its tenant and of the provider. Without a tenant it has no limit.
type job struct {
	Tenant string
	Fixed  tasks.Options `json:"-"`
}

func (job) TaskType() string             { return "job" }
func (j job) TaskOptions() tasks.Options { return j.Fixed }
func (j job) Charges() []reservations.Charge {
	if j.Tenant == "" {
		return nil
	}
	one := reservations.Tokens{"tokens": 1}
	return []reservations.Charge{{Limit: "tenant", Key: j.Tenant, Tokens: one}, {Limit: "api", Tokens: one}}
}

// flaky loses some of Headway's calls to Redis, and some of the answers.
type flaky struct{ lost *atomic.Int64 }

var errFlaky = errors.New("lost")

func (flaky) DialHook(next redis.DialHook) redis.DialHook { return next }

func (flaky) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f flaky) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		text := fmt.Sprint(command.Args()...)
		sorts := strings.Contains(text, "asynq:{default}:paused") || strings.Contains(text, "asynq:{default}:scheduled")
		ours := strings.HasPrefix(text, "evalsha") &&
			(strings.Contains(text, "headway:{wait}:") || sorts && !strings.Contains(text, "lease"))
		dice := rand.IntN(20)
		if !ours || dice > 2 {
			return next(ctx, command)
		}
		f.lost.Add(1)
		if dice > 0 {
			_ = next(ctx, command)
		}
		command.SetErr(errFlaky)
		return errFlaky
	}
}

// A fleet that sorts while workers come and go, and calls to Redis are lost, starts every task once, within the
// limit.
func TestSortInAFleet(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		sortingFleet(t, miniredis.RunT(t).Addr(), 4)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		sortingFleet(t, testenv.StartRedisServer(t).Addr(), 10)
	})
}

func sortingFleet(t *testing.T, addr string, concurrency int) {
	t.Helper()
	const n, rate, capacity = 600, 100., 10.
	meters := func(rate float64) []reservations.Meter {
		return []reservations.Meter{{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: 200}}
	}
	b := setupOn(t, addr, reservations.Limit{Name: "api", Meters: meters(rate)},
		reservations.Limit{Name: "tenant", Meters: meters(60)})
	var many []tasks.Args
	for i := range n {
		j := job{Tenant: []string{"a", "b", "a", ""}[i%4], Fixed: tasks.Options{ID: fmt.Sprintf("j%04d", i)}}
		if i%3 == 0 {
			j.Fixed.MaxRetry = tasks.NoRetry
		}
		many = append(many, j)
	}
	if _, err := b.scheduler.EnqueueMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards runs
	runs, ran := map[string]int{}, make(chan string, 2*n)
	var placed, lost atomic.Int64
	add := func(flakes bool) *worker.Worker {
		client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: patience})
		t.Cleanup(func() { _ = client.Close() })
		if flakes {
			client.AddHook(flaky{&lost})
		}
		events := append(b.events(), only(worker.KindSorted, func(e worker.Event) { placed.Add(int64(e.Tasks)) }))
		w, err := worker.New(client, b.limiter, worker.Config{
			Concurrency: concurrency, Events: events, Logger: slog.New(slog.DiscardHandler),
			Scheduler: scheduler.Config{Logger: slog.New(slog.DiscardHandler)},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.NeverLate()
		worker.Handle(w, func(_ context.Context, j *worker.Job[job]) error {
			mu.Lock()
			runs[j.ID]++
			mu.Unlock()
			ran <- j.ID
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			if err := w.Stop(ctx); err != nil && !errors.Is(err, errFlaky) {
				t.Errorf("stop: %v", err)
			}
		})
		return w
	}
	var stopping sync.WaitGroup
	defer stopping.Wait()
	first := add(true)
	add(true)
	add(false)
	for i := range n {
		receive(t, ran)
		if i == n/3 {
			stopping.Go(func() { _ = first.Stop(t.Context()) })
			add(true)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for id, times := range runs {
		if times != 1 {
			t.Errorf("%s ran %d times", id, times)
		}
	}
	var at []time.Time
	for range len(b.starts) {
		if s := <-b.starts; len(s.Charges) > 0 {
			at = append(at, s.Outcome.At.Add(s.Outcome.Hold))
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := range at {
		in, _ := slices.BinarySearchFunc(at[i:], at[i].Add(time.Second), time.Time.Compare)
		if float64(in) > capacity+rate+1 {
			t.Fatalf("%d starts within a second", in)
		}
	}
	t.Logf("%d limited in %v, %d sorted, %d deferrals, %d calls lost", len(at), at[len(at)-1].Sub(at[0]), placed.Load(),
		len(b.deferrals), lost.Load())
}
