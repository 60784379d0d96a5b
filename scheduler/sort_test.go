package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// backlog enqueues n tasks, unreserved and in order. Each tenth has no limit.
func backlog(t *testing.T, s *scheduler.Scheduler, n int) (limited, free []string) {
	t.Helper()
	for i := range n {
		c := openai("")
		c.Fixed.ID = fmt.Sprintf("t%04d", i)
		if i%10 == 9 {
			c.Limit = ""
			free = append(free, c.Fixed.ID)
		} else {
			limited = append(limited, c.Fixed.ID)
		}
		if _, err := s.Enqueue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return limited, free
}

// sorted sorts the queue, and returns how many tasks the sort reported.
func sorted(t *testing.T, s *scheduler.Scheduler, price engine.Pricer) (reported int) {
	t.Helper()
	s.Engine().Sort("default", price, func(n int) { reported += n })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil { // waits for the running sort
		t.Fatal(err)
	}
	return reported
}

// sortedNone fails if sorting schedules a task, or if the pending tasks are not the wanted ones.
func sortedNone(
	t *testing.T, s *scheduler.Scheduler, price engine.Pricer, client redis.UniversalClient, want []string,
) {
	t.Helper()
	if reported := sorted(t, s, price); reported != 0 {
		t.Errorf("the sort reported %d", reported)
	}
	if diff := cmp.Diff(want, next(t, client)); diff != "" {
		t.Fatalf("delivered next (-want +got):\n%s", diff)
	}
}

// next returns the IDs of the pending tasks, in order of delivery.
func next(t *testing.T, client redis.UniversalClient) (ids []string) {
	t.Helper()
	pending, err := asynq.NewInspectorFromRedisClient(client).ListPendingTasks("default", asynq.PageSize(1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range pending {
		ids = append(ids, info.ID)
	}
	return ids
}

// Tasks at the head that wait already do not keep the tasks behind them from being sorted.
func TestSortBehindWaitingTasks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := limiter(t, store(), perSecond(1./3600, 1))
		if o := ask(t, l, openai("").Charges()[0]); !o.Started() {
			t.Fatalf("%+v", o)
		}
		first := newScheduler(t, client, l, exact())
		waiting, _ := backlog(t, first, 88)
		start(t, first)
		if reported := sorted(t, first, envelope.Charges); reported != len(waiting) {
			t.Fatalf("the sort reported %d of %d", reported, len(waiting))
		}
		inspector := asynq.NewInspectorFromRedisClient(client)
		for _, id := range waiting { // as if asynq delivered them too early
			if err := inspector.RunTask("default", id); err != nil {
				t.Fatal(err)
			}
		}
		second := newScheduler(t, client, l, exact())
		const behind = 100
		for range behind {
			if _, err := second.Enqueue(t.Context(), openai("")); err != nil {
				t.Fatal(err)
			}
		}
		start(t, second)
		joined, left := make(chan int, behind), behind
		second.Engine().Sort("default", envelope.Charges, func(n int) { joined <- n })
		for left > 0 {
			select {
			case n := <-joined:
				left -= n
			case <-time.After(patience):
				t.Fatalf("%d of %d tasks were not sorted", left, behind)
			}
		}
	})
}

// Tasks with a limit wait in their order; all others are delivered next, in their order.
func TestSort(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		limit := perSecond(1, 1)
		limit.Meters[0].MaxReserved = 50 // most wait without a reservation
		l := limiter(t, store(), limit)
		s := newScheduler(t, client, l, exact())
		if o := ask(t, l, openai("").Charges()[0]); !o.Started() {
			t.Fatalf("%+v", o)
		}
		limited, free := backlog(t, s, 100)
		start(t, s)
		if reported := sorted(t, s, envelope.Charges); reported != len(limited) {
			t.Errorf("the sort reported %d of %d", reported, len(limited))
		}
		if diff := cmp.Diff(free, next(t, client)); diff != "" {
			t.Errorf("delivered next (-want +got):\n%s", diff)
		}
		reserved := 0
		for i, id := range limited {
			e, err := s.Explain(t.Context(), scheduler.Task{Queue: "default", ID: id})
			if err != nil || e.Waits == nil || e.State != asynq.TaskStateScheduled.String() || e.Waits.Position != i+1 {
				t.Fatalf("%s: %+v, %+v, %v", id, e.Waits, e, err)
			}
			if e.Waits.Reserved {
				reserved++
			}
		}
		if reserved < 45 || reserved > 51 {
			t.Errorf("%d of %d are reserved", reserved, len(limited))
		}
	})
}

// If a bucket does not answer, its tasks are delivered without sorting.
func TestSortWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	client := mini(t)
	s := newScheduler(t, client, limiter(t, brokenStore{}, perSecond(1, 1)), exact())
	limited, free := backlog(t, s, 100)
	want := slices.Concat(limited, free)
	for range 2 { // a task that was put back must not be sorted again
		start(t, s)
		sortedNone(t, s, envelope.Charges, client, want)
	}
}

func TestSortLeavesAlone(t *testing.T) {
	t.Parallel()
	failing := func(*asynq.Task) ([]reservations.Charge, error) { return nil, errors.New("can't be priced") }
	unknown := func(*asynq.Task) ([]reservations.Charge, error) {
		return []reservations.Charge{{Limit: "unknown", Tokens: reservations.Tokens{"requests": 1}}}, nil
	}
	for name, c := range map[string]struct {
		tasks int
		price engine.Pricer
		start bool
	}{
		"few":             {63, envelope.Charges, true},
		"without a price": {100, failing, true},
		"without a limit": {100, unknown, true},
		"not started":     {100, envelope.Charges, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := mini(t)
			s := newScheduler(t, client, limiter(t, store(), perSecond(1, 1)), exact())
			limited, free := backlog(t, s, c.tasks)
			want := slices.Sorted(slices.Values(slices.Concat(limited, free)))
			if c.start {
				start(t, s)
			}
			sortedNone(t, s, c.price, client, want)
		})
	}
}

// brokenStore is a store that does not answer.
type brokenStore struct{ reservations.Store }

func (brokenStore) Apply(
	context.Context, bucket.Limit, string, []bucket.Request,
) ([]bucket.Answer, error) {
	return nil, &bucket.UnavailableError{Bucket: "openai", Applied: bucket.AppliedNo, Err: errors.New("down")}
}
