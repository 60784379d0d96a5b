package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// askedStore notes which buckets are asked to settle nothing: revisions.
type askedStore struct {
	*memstore.Store

	mu    sync.Mutex // guards what is below
	asked map[string]int
	down  bool
	sick  string // a bucket that can't be asked
}

func (s *askedStore) Apply(ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	if requests[0].Op == reservations.OpSettle {
		bucket := reservations.BucketName(limit.Name, key)
		s.mu.Lock()
		s.asked[bucket]++
		down := s.down || bucket == s.sick
		s.mu.Unlock()
		if down {
			return nil, &reservations.UnavailableError{Bucket: bucket, Applied: reservations.AppliedNo, Err: context.DeadlineExceeded}
		}
	}
	return s.Store.Apply(ctx, limit, key, requests)
}

// take returns what was asked since the last call.
func (s *askedStore) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = map[string]int{}
	return asked
}

func (s *askedStore) fail(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *askedStore) ail(bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sick = bucket
}

func named(name string) reservations.Limit {
	l := perSecond(0.001, 1)
	l.Name = name
	return l
}

// reviseBundle is a fleet of two processes; tasks wait for n keys of the limits a and b.
type reviseBundle struct {
	store      *askedStore
	limiters   [2]*reservations.Limiter
	schedulers [2]*scheduler.Scheduler
}

func setupRevise(t *testing.T, client redis.UniversalClient, keys int) *reviseBundle {
	t.Helper()
	b := &reviseBundle{store: &askedStore{Store: store(), asked: map[string]int{}}}
	for i := range b.schedulers {
		b.limiters[i] = limiter(t, b.store, named("a"), named("b"))
		b.schedulers[i] = newScheduler(t, client, b.limiters[i], exact())
	}
	for i := range keys {
		for _, limit := range []string{"a", "b"} {
			c := reservations.Charge{Limit: limit, Key: fmt.Sprintf("k@%d:x", i), Tokens: reservations.Tokens{"requests": 1}}
			o := ask(t, b.limiters[0], c)
			if o.Started() {
				o = ask(t, b.limiters[0], c)
			}
			task := scheduler.Task{Queue: "default", ID: fmt.Sprintf("%s-%d", limit, i)}
			if err := b.schedulers[0].Defer(t.Context(), task, c, o); !errors.Is(err, scheduler.ErrDeferred) {
				t.Fatal(err)
			}
		}
	}
	return b
}

func ask(t *testing.T, l *reservations.Limiter, c reservations.Charge) reservations.Outcome {
	t.Helper()
	o, err := l.Begin(t.Context(), c, reservations.Place{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// change gives a limit of all processes another rate.
func (b *reviseBundle) change(t *testing.T, o ...reservations.Override) (before *reservations.LimitSet) {
	t.Helper()
	before = b.limiters[0].Limits()
	for _, l := range b.limiters {
		if err := l.SetOverrides(o); err != nil {
			t.Fatal(err)
		}
	}
	return before
}

func (b *reviseBundle) revise(t *testing.T, i int, before *reservations.LimitSet) {
	t.Helper()
	if done, err := b.schedulers[i].Revise(t.Context(), before, b.limiters[i].Limits()); err != nil || !done {
		t.Fatalf("done %v, %v", done, err)
	}
}

func (b *reviseBundle) wantAsked(t *testing.T, limit string, n int) {
	t.Helper()
	asked := b.store.take()
	for bucket, times := range asked {
		if c := reservations.ParseBucket(bucket); times != 1 || (limit != "" && c.Limit != limit) {
			t.Errorf("bucket %s was asked %d times", bucket, times)
		}
	}
	if len(asked) != n {
		t.Errorf("%d buckets were asked, want %d", len(asked), n)
	}
}

func TestReviseAsksWhatHasChanged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		const keys = 300
		b := setupRevise(t, client, keys)
		b.revise(t, 0, nil)
		b.wantAsked(t, "", 2*keys)
		b.revise(t, 1, nil)
		b.wantAsked(t, "", 0) // the fleet has been asked

		fast := reservations.Override{Limit: "a", Meter: "requests", Rate: 5, Period: time.Second}
		before := b.change(t, fast)
		b.revise(t, 1, before)
		b.revise(t, 0, before)
		b.wantAsked(t, "a", keys)

		one := reservations.Override{Limit: "b", Key: "k@7:x", Meter: "requests", Rate: 5, Period: time.Second}
		before = b.change(t, fast, one)
		b.revise(t, 0, before)
		b.wantAsked(t, "b", 1)

		b.change(t) // and back to what process 1 knew last, past what the lines go by
		b.revise(t, 1, b.limiters[1].Limits())
		b.wantAsked(t, "", 2*keys)
	})
}

// Of many that see a change at once one asks; whoever takes over after a failure asks again.
func TestReviseIsDoneByOneOfTheFleet(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		b := setupRevise(t, client, 50)
		b.store.fail(true)
		if done, err := b.schedulers[0].Revise(t.Context(), nil, b.limiters[0].Limits()); done || !errors.Is(err, reservations.ErrUnavailable) {
			t.Errorf("done %v, %v: the store is down", done, err)
		}
		b.store.fail(false)
		b.store.take()
		var calls sync.WaitGroup
		var mu sync.Mutex
		finished := 0
		for i := range 8 {
			calls.Go(func() {
				done, err := b.schedulers[i%2].Revise(t.Context(), nil, b.limiters[i%2].Limits())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if done {
					finished++
				}
			})
		}
		calls.Wait()
		b.wantAsked(t, "", 100)
		if finished == 0 {
			t.Error("nobody has done it")
		}
	})
}

// The answers move the lines: whoever waits comes by the new clock. They have moved before that is noted, also where this process dies right then.
func TestReviseMovesTheLine(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		b := setupRevise(t, client, 1)
		before, _, err := b.schedulers[1].Lines(t.Context(), "a", 10)
		if err != nil || len(before) != 1 {
			t.Fatalf("%+v, %v", before, err)
		}
		b.change(t, reservations.Override{Limit: "a", Meter: "requests", Rate: 5, Period: time.Second})
		b.revise(t, 0, nil)
		after, _, err := b.schedulers[1].Lines(t.Context(), "a", 10)
		if err != nil || len(after) != 1 {
			t.Fatalf("%+v, %v", after, err)
		}
		if was, is := before[0].First.Sub(before[0].Now), after[0].First.Sub(after[0].Now); was < time.Minute || is > time.Second {
			t.Errorf("the first is due in %v, and was in %v", is, was)
		}
	})
}

// One bucket that can't be asked does not keep the others from being revised. It is asked again with the next turn.
func TestReviseGoesOnAfterABucketThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		const keys = 300 // more than one page
		b := setupRevise(t, client, keys)
		b.store.ail("a:k@7:x")
		if done, err := b.schedulers[0].Revise(t.Context(), nil, b.limiters[0].Limits()); done || !errors.Is(err, reservations.ErrUnavailable) || !strings.Contains(err.Error(), "a:k@7:x") {
			t.Errorf("done %v, %v", done, err)
		}
		b.wantAsked(t, "", 2*keys)
		b.store.ail("")
		b.revise(t, 1, nil)
		b.wantAsked(t, "", 2*keys)
	})
}

func TestReviseWithoutRedis(t *testing.T) {
	t.Parallel()
	l := limiter(t, store(), named("a"))
	s := newScheduler(t, redisOf(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), l, exact())
	if done, err := s.Revise(t.Context(), nil, l.Limits()); done || err == nil {
		t.Errorf("done %v, %v", done, err)
	}
	without := newScheduler(t, mini(t), nil, exact())
	if done, err := without.Revise(t.Context(), nil, l.Limits()); !done || err != nil {
		t.Errorf("done %v, %v: nothing is to be done", done, err)
	}
}
