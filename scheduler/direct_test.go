package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// direct is a process with direct callers, which wait in the waitlists of its Redis.
func direct(
	t *testing.T, client redis.UniversalClient, store reservations.Store, limits ...reservations.Limit,
) (*reservations.Limiter, *scheduler.Scheduler) {
	t.Helper()
	l := limiter(t, store, limits...)
	s := newScheduler(t, client, l, exact())
	s.TakeCallers()
	return l, s
}

// inLine waits until n tasks or callers wait or are promoted.
func inLine(t *testing.T, s *scheduler.Scheduler, n int) {
	t.Helper()
	until := time.Now().Add(patience)
	for {
		w, err := inside.Of(s).Waitlist(t.Context(), "openai")
		if err == nil && w.Waiting+w.Promoted == n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%+v, %v; want %d in line", w, err, n)
		}
		wait(t.Context(), 5*time.Millisecond)
	}
}

// promised returns until when the bucket has promised tokens.
func promised(t *testing.T, l *reservations.Limiter) float64 {
	t.Helper()
	v, err := l.View(t.Context(), "openai", "")
	if err != nil {
		t.Fatal(err)
	}
	return v.Meters[0].Promised
}

// Tasks and direct callers of another process wait in one waitlist. They are promoted in the order of arrival, once
// each, and start within the limit.
func TestDirectCallersAndTasksWaitInOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 16
		client := inMemory(t)
		limit, store := perSecond(20, 1), memstore.New()
		l := limiter(t, store, limit)
		fleet := newScheduler(t, client, l, exact())
		var mu sync.Mutex
		var promoted []string
		var starts []time.Time
		fleet.Observe(func(all []waitlist.Task) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range all {
				_, number, caller := p.Process()
				name := p.ID
				if caller {
					name = "caller " + number
				}
				promoted = append(promoted, name)
			}
		})
		m := &member{scheduler: fleet, limiter: l, delivered: func(d delivery) {
			if d.outcome.Started() {
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, d.outcome.At.Add(d.outcome.Hold))
			}
		}}
		m.work(t, client)
		web, _ := direct(t, client, store, limit)
		if _, err := inside.Of(l).Block(t.Context(), requests(1), time.Minute); err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		var want []string
		for i := range n {
			if i%2 == 0 {
				c := openai(fmt.Sprint("task ", i))
				c.Fixed.ID = c.Name
				if _, err := fleet.Enqueue(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				want = append(want, c.Name)
			} else {
				callers.Go(func() {
					g, err := web.Wait(t.Context(), requests(1))
					if err != nil {
						t.Error(err)
						return
					}
					o := g.Outcomes()[0]
					mu.Lock()
					defer mu.Unlock()
					starts = append(starts, o.At.Add(o.Hold))
				})
				want = append(want, fmt.Sprint("caller ", i/2+1))
			}
			inLine(t, fleet, i+1)
		}
		answers, err := inside.Of(l).Unblock(t.Context(), "openai", "")
		if err != nil {
			t.Fatal(err)
		}
		inside.Of(fleet).Changed(answers[0])
		start(t, fleet)
		callers.Wait()
		inLine(t, fleet, 0)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(promoted, want) {
			t.Errorf("promoted %q, want %q", promoted, want)
		}
		slices.SortFunc(starts, time.Time.Compare)
		for i := range starts[1:] {
			if apart := starts[i+1].Sub(starts[i]); apart.Round(time.Millisecond) < 50*time.Millisecond {
				t.Errorf("start %d came %v after the one before it", i+1, apart)
			}
		}
		if len(starts) != n || promised(t, l) > 1e-6 {
			t.Errorf("%d starts, %v still promised", len(starts), promised(t, l))
		}
		if took := starts[len(starts)-1].Sub(starts[0]); took > time.Second {
			t.Errorf("%d starts in %v, want nearly 20 a second", len(starts), took)
		}
	})
}

// A caller that gives up, or whose scheduler stops, leaves the waitlist and releases its reservation at once.
func TestDirectCallerGivesUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l, s := direct(t, client, store(), perSecond(1./3600, 1))
		ask(t, l, requests(1))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, ctx := range []context.Context{ctx, t.Context()} {
			go func() {
				_, err := l.Wait(ctx, requests(1))
				ended <- err
			}()
		}
		inLine(t, s, 2)
		if n := promised(t, l); n < 1.9 {
			t.Errorf("%v promised", n)
		}
		cancel()
		if err := receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		inLine(t, s, 1)
		if n := promised(t, l); n > 1.1 {
			t.Errorf("%v still promised", n)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, ended); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("%v", err)
		}
		inLine(t, s, 0)
		if n := promised(t, l); n > 0.1 {
			t.Errorf("%v still promised", n)
		}
	})
}

// Callers of a process that is gone leave the waitlist, and the callers behind them start.
func TestDirectCallerOfAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client, wire := server.Apart(t)
		gone, _ := direct(t, client, store(), perSecond(1, 1))
		ask(t, gone, requests(1))
		if _, err := inside.Of(gone).Block(t.Context(), requests(1), time.Hour); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			go func() { _, _ = gone.Wait(t.Context(), requests(1)) }()
		}
		l, s := direct(t, server.Client(t), store(), perSecond(10, 1))
		inLine(t, s, 2)
		wire.Set(network.Refuse)
		left := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, fault := l.Wait(t.Context(), requests(1))
			ended <- fault
		}()
		inLine(t, s, 3)
		start(t, s)
		if err := receive(t, ended); err != nil {
			t.Error(err)
		}
		inLine(t, s, 0)
		if took := time.Since(left); took > 5500*time.Millisecond { // a sign of life counts for five seconds
			t.Errorf("they left the waitlist after %v", took)
		}
	})
}

// Without Redis a caller waits until RetryAt, and keeps its reservation.
func TestDirectCallerWithoutRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client := server.Client(t)
		l, _ := direct(t, client, store(), perSecond(2, 1))
		server.SetError("LOADING busy")
		for range 2 {
			if _, err := l.Wait(t.Context(), requests(1)); err != nil {
				t.Error(err)
			}
		}
		if n := promised(t, l); n > 1e-6 {
			t.Errorf("%v still promised", n)
		}
		server.SetError("")
	})
}

// If Redis loses a place and the sign of life, the caller joins again.
func TestDirectCallerWhosePlaceIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client := server.Client(t)
		l, s := direct(t, client, store(), perSecond(1./3600, 1))
		ask(t, l, requests(1))
		ended := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), requests(1))
			ended <- err
		}()
		inLine(t, s, 1)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := l.SetLimits([]reservations.Limit{perSecond(1, 1)}); err != nil {
			t.Fatal(err)
		}
		start(t, s)
		if err := receive(t, ended); err != nil {
			t.Error(err)
		}
	})
}

// While the store is down, callers wait in the waitlist, and go on in their order.
func TestDirectCallersWaitForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, away := inMemory(t), &switched{Store: store()}
		l, s := direct(t, client, away, perSecond(100, 1))
		start(t, s)
		away.off.Store(true)
		ended := make(chan error, 3)
		for range cap(ended) {
			go func() {
				_, err := l.Wait(t.Context(), requests(1))
				ended <- err
			}()
		}
		inLine(t, s, 3)
		away.off.Store(false)
		for range cap(ended) {
			if err := receive(t, ended); err != nil {
				t.Error(err)
			}
		}
	})
}
