package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	callers   = 64 // goroutines on one bucket
	processes = 20 // stores that create the same bucket at once
)

// eachOf runs f(0) to f(n-1) at the same time and waits for all.
func eachOf(n int, f func(i int)) {
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	running.Wait()
}

// With the clock at rest a capacity of 100 admits 100, and 2 more that hold for at most 250 ms at 10 a second.
func testConcurrent(d driver) {
	limit := oneMeter(10, 100, reservations.Unlimited)
	started := race(d.t, callers, 4, func(int) reservations.Store { return d.i.Store }, limit)
	if started != 102 {
		d.t.Errorf("%d callers: %d started, want exactly 102", callers, started)
	}
}

func testConcurrentLimiter(d driver) {
	limit := oneMeter(10, 100, reservations.Unlimited)
	limiter, err := reservations.New(d.i.Store, []reservations.Limit{limit}, reservations.Config{CallTimeout: time.Minute})
	if err != nil {
		d.t.Fatal(err)
	}
	var started atomic.Int64
	eachOf(callers, func(int) {
		for range 8 {
			o, err := limiter.Begin(d.t.Context(), reservations.Charge{Limit: limit.Name, Tokens: reservations.Tokens{"m": 1}}, reservations.Place{})
			if err != nil {
				d.t.Error(err)
				return
			}
			if o.Started() {
				started.Add(1)
			}
		}
	})
	if started.Load() != 102 {
		d.t.Errorf("%d callers through a limiter: %d started, want exactly 102", callers, started.Load())
	}
}

// At one token a day nothing comes back while the test runs, whatever the clock does.
func testConcurrentLive(d driver) {
	started := race(d.t, callers, 4, func(int) reservations.Store { return d.i.Store }, daily(100))
	if started != 100 {
		d.t.Errorf("%d callers: %d started, want exactly 100", callers, started)
	}
}

func testCreatedAtOnce(d driver) {
	stores := make([]reservations.Store, processes)
	for p := range stores {
		stores[p] = d.i.peer(d.t)
	}
	for round := range 10 {
		limit := daily(7)
		limit.Name = "created-" + string(rune('a'+round))
		if started := race(d.t, processes, 1, func(p int) reservations.Store { return stores[p] }, limit); started != 7 {
			d.t.Errorf("round %d: %d of %d first callers started, want exactly 7", round, started, processes)
		}
	}
}

func daily(capacity float64) reservations.Limit {
	l := oneMeter(1, capacity, reservations.Unlimited)
	l.Meters[0].Period = 24 * time.Hour
	return l
}

// race lets n goroutines begin, each the given number of times, and returns how many began.
func race(t *testing.T, n, times int, store func(i int) reservations.Store, limit reservations.Limit) int64 {
	t.Helper()
	var started atomic.Int64
	eachOf(n, func(i int) {
		for range times {
			outcomes, err := store(i).Apply(t.Context(), limit, "", []reservations.Request{begin(1)})
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			if outcomes[0].Started() {
				started.Add(1)
			}
		}
	})
	return started.Load()
}
