package memstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// hourly is 10 tokens an hour.
func hourly() reservations.Limit {
	return reservations.Limit{Name: "hourly", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 10, Period: time.Hour, MaxReserved: reservations.None},
	}}
}

func startOf(tokens float64) []bucket.Request {
	return []bucket.Request{{Op: bucket.OpStart, Tokens: []float64{tokens}}}
}

func found(t *testing.T, store *memstore.Store, key string) bool {
	t.Helper()
	b, _, err := bucket.Read(t.Context(), store, "hourly", key)
	if err != nil {
		t.Fatal(err)
	}
	return !b.At.IsZero()
}

// fakeClock is moved by hand.
type fakeClock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestApplyFoldsInOrder(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	requests := append(startOf(7), append(startOf(7), startOf(3)...)...)
	outcomes, err := bucket.Apply(t.Context(), store, bucket.Rules(hourly()), "k", requests)
	if err != nil || len(outcomes) != 3 {
		t.Fatalf("%v, %v", outcomes, err)
	}
	want := []bucket.State{bucket.StateStarted, bucket.StateWaiting, bucket.StateStarted}
	for i, o := range outcomes {
		if o.State != want[i] || o.Bucket.Version != []int64{1, 1, 2}[i] {
			t.Errorf("outcome %d is %+v, want %s", i, o, want[i])
		}
	}
}

func TestDoneContextAppliesNothing(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, applied := bucket.Apply(ctx, store, bucket.Rules(hourly()), "k", startOf(1))
	for call, err := range map[string]error{"Apply": applied, "Reset": store.Reset(ctx, "hourly", "k")} {
		var u *bucket.UnavailableError
		if !errors.As(err, &u) || u.Applied != bucket.AppliedNo || u.Bucket != "hourly:k" ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if found(t, store, "k") {
		t.Error("there is a bucket")
	}
}

// Buckets that have been full for a minute are forgotten now and then, and no others.
func TestFullBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{now: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)}
	store := memstore.NewAt(clock.Now)
	for i := range 100 {
		requests := startOf(float64(i % 2 * 10))
		if _, err := bucket.Apply(t.Context(), store, bucket.Rules(hourly()), strconv.Itoa(i), requests); err != nil {
			t.Fatal(err)
		}
	}
	clock.advance(2 * time.Minute) // the charged buckets are full in an hour
	for range 5000 {
		if _, err := bucket.Apply(t.Context(), store, bucket.Rules(hourly()), "busy", startOf(1e-9)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if ok := found(t, store, strconv.Itoa(i)); ok != (i%2 == 1) {
			t.Errorf("bucket %d is there: %v", i, ok)
		}
	}
	if !found(t, store, "busy") {
		t.Error("the busy bucket was forgotten")
	}
}

func TestConcurrentCallers(t *testing.T) {
	t.Parallel()
	const callers, each, room = 64, 50, 1000
	store := memstore.New()
	var wg sync.WaitGroup
	started := make(chan int, callers)
	daily := reservations.Limit{Name: "daily", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1, Period: 24 * time.Hour, Capacity: room},
	}}
	for range callers {
		wg.Go(func() {
			n := 0
			for range each {
				outcomes, err := bucket.Apply(t.Context(), store, bucket.Rules(daily), "", startOf(1))
				if err != nil {
					t.Error(err)
					return
				}
				if outcomes[0].Started() {
					n++
				}
			}
			started <- n
		})
	}
	wg.Wait()
	close(started)
	sum := 0
	for n := range started {
		sum += n
	}
	if sum != room {
		t.Errorf("%d started, want %d", sum, room)
	}
}
