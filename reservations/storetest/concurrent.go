package storetest

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

const (
	callers   = 64 // goroutines on one bucket
	processes = 20 // stores on one bucket
)

// eachOf runs f(0) to f(n-1) at the same time and waits for all.
func eachOf(n int, f func(i int)) {
	var running sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	running.Wait()
}

func (d driver) peers(n int) []reservations.Store {
	d.t.Helper()
	all := make([]reservations.Store, n)
	for p := range all {
		all[p] = d.i.peer(d.t)
	}
	return all
}

// With the clock at rest a capacity of 100 admits 100, and 2 more that hold for at most 250 ms at 10 a second.
func testConcurrent(d driver) {
	limit := oneMeter(10, 100, 0)
	if started := race(d.t, callers, 4, []reservations.Store{d.i.Store}, limit); started != 102 {
		d.t.Errorf("%d callers: %d started, want exactly 102", callers, started)
	}
}

// The same of several processes. Each change is one version.
func testConcurrentProcesses(d driver) {
	d.limit = oneMeter(10, 100, 0)
	const each = 16
	if started := race(d.t, processes, each, d.peers(processes), d.limit); started != 102 {
		d.t.Errorf("%d processes: %d started, want exactly 102", processes, started)
	}
	b, _ := d.load()
	if want := 100. - processes*each; b.Version != processes*each || math.Abs(b.Meters[0].Reserved-want) > noMoreThan {
		d.t.Errorf("after %d calls there is %+v, want a reserved balance of %v", processes*each, b, want)
	}
}

func testConcurrentLimiter(d driver) {
	limit := oneMeter(10, 100, 0)
	limiter, err := reservations.New(d.i.Store, []reservations.Limit{limit}, reservations.Config{CallTimeout: time.Minute})
	if err != nil {
		d.t.Fatal(err)
	}
	var started atomic.Int64
	eachOf(callers, func(int) {
		for range 8 {
			o, err := inside.Of(limiter).Ask(d.t.Context(), reservations.Charge{
				Limit: limit.Name, Tokens: reservations.Tokens{"m": 1},
			})
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

// Settlements that several processes repeat count once.
func testConcurrentSettlements(d driver) {
	d.limit = oneMeter(.001, 100, 0)
	d.apply(start(100))
	stores := d.peers(8)
	eachOf(len(stores), func(p int) {
		for id := range int64(20) {
			_, err := bucket.Apply(d.t.Context(), stores[p], bucket.Rules(d.limit), "", []bucket.Request{
				{Op: bucket.OpSettle, ID: id + 1, Tokens: []float64{1}},
			})
			if err != nil {
				d.t.Error(err)
				return
			}
		}
	})
	d.wantStart(d.one(allow(20)), 0)
	d.want(d.one(allow(1)), bucket.StateRefused, 1000*time.Second)
}

// On a live clock at most capacity + rate*T start.
func testBoundLive(d driver) {
	const rate, capacity = 200., 50.
	d.limit = oneMeter(rate, capacity, reservations.None)
	stores := d.peers(8)
	var started atomic.Int64
	var mu sync.Mutex // guards first, last
	var first, last time.Time
	eachOf(len(stores)*4, func(i int) {
		for range 25 {
			o, err := contend(d.t, stores[i%len(stores)], d.limit, allow(1))
			if err != nil {
				d.t.Error(err)
				return
			}
			if o.Started() {
				started.Add(1)
				mu.Lock()
				if first.IsZero() || o.At.Before(first) {
					first = o.At
				}
				if o.At.After(last) {
					last = o.At
				}
				mu.Unlock()
			}
		}
	})
	most := int64(capacity + rate*last.Sub(first).Seconds() + noMoreThan)
	if n := started.Load(); n > most || n < capacity {
		d.t.Errorf("%d started in %v, want %v to %d", n, last.Sub(first), capacity, most)
	}
}

// At one token a day nothing comes back while the test runs, whatever the clock does.
func testConcurrentLive(d driver) {
	if started := race(d.t, callers, 4, []reservations.Store{d.i.Store}, daily(100)); started != 100 {
		d.t.Errorf("%d callers: %d started, want exactly 100", callers, started)
	}
}

func testCreatedAtOnce(d driver) {
	stores := d.peers(processes)
	for round := range 10 {
		limit := daily(7)
		limit.Name = "created-" + string(rune('a'+round))
		if started := race(d.t, processes, 1, stores, limit); started != 7 {
			d.t.Errorf("round %d: %d of %d first callers started, want exactly 7", round, started, processes)
		}
	}
}

func testClockGoesOn(d driver) {
	d.limit = oneMeter(1000, 1000, 0)
	first := d.one(start(1000))
	last, deadline := first, time.Now().Add(time.Minute)
	for last.At.Sub(first.At) < 50*ms {
		if time.Now().After(deadline) {
			d.t.Fatalf("in a minute the store's clock went on by %v", last.At.Sub(first.At))
		}
		next := d.one(start(0))
		if next.At.Before(last.At) {
			d.t.Errorf("a bucket's time went back from %v to %v", last.At, next.At)
		}
		last = next
	}
	if skew := time.Since(last.At).Abs(); skew > time.Hour {
		d.t.Errorf("the store's clock is off by %v", skew)
	}
	if o := d.one(start(last.At.Sub(first.At).Seconds() * 1000)); !o.Started() {
		d.t.Errorf("after %v the wait for what came back meanwhile is %v", last.At.Sub(first.At), o.Wait())
	}
}

func daily(capacity float64) reservations.Limit {
	l := oneMeter(1, capacity, 0)
	l.Meters[0].Period = 24 * time.Hour
	return l
}

// race lets n goroutines start tasks, each the given number of times, by one of the stores in turn. It returns how many
// started.
func race(t *testing.T, n, times int, stores []reservations.Store, limit reservations.Limit) int64 {
	t.Helper()
	var started atomic.Int64
	eachOf(n, func(i int) {
		for range times {
			o, err := contend(t, stores[i%len(stores)], limit, start(1))
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			if o.Started() {
				started.Add(1)
			}
		}
	})
	return started.Load()
}

// contend applies a request, and again where the store gave up and applied nothing: on a busy machine that is no fault.
func contend(
	t *testing.T, store reservations.Store, limit reservations.Limit, r bucket.Request,
) (bucket.Answer, error) {
	t.Helper()
	var outcomes []bucket.Answer
	err := again(func() (err error) {
		outcomes, err = bucket.Apply(t.Context(), store, bucket.Rules(limit), "", []bucket.Request{r})
		return err
	})
	if err != nil {
		return bucket.Answer{}, err
	}
	return outcomes[0], nil
}

// again calls apply for up to a minute while the store gives up and applies nothing.
func again(apply func() error) error {
	for patience := time.Now().Add(time.Minute); ; {
		err := apply()
		if u, ok := errors.AsType[*bucket.UnavailableError](err); !ok || u.Applied != bucket.AppliedNo ||
			time.Now().After(patience) {
			return err
		}
	}
}
