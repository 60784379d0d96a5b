package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// promotions returns a channel of the tasks that s promotes.
func promotions(s *scheduler.Scheduler) <-chan waitlist.Task {
	promoted := make(chan waitlist.Task, 10000)
	s.Observe(func(all []waitlist.Task) {
		for _, t := range all {
			promoted <- t
		}
	})
	return promoted
}

func numbered(n int) (args []tasks.Args) {
	for i := range n {
		c := openai("c")
		c.Fixed.ID = fmt.Sprintf("%03d", i)
		args = append(args, c)
	}
	return args
}

func reserve(t *testing.T, s *scheduler.Scheduler, args []tasks.Args, o ...tasks.Options) {
	t.Helper()
	if _, err := s.EnqueueMany(t.Context(), args, o...); err != nil {
		t.Fatal(err)
	}
}

// Three workers run, each with a dispatcher.
func TestRefusedTasksComeBackOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		client := inMemory(t)
		l, counts := limiter(t, store(), perSecond(50, 5)), newLedger()
		for range 3 {
			s := newScheduler(t, client, l, exact())
			m := &member{scheduler: s, limiter: l, delivered: counts.delivered}
			start(t, m.scheduler)
			m.work(t, client)
		}
		s := newScheduler(t, client, l, exact())
		for i := range n {
			if _, err := s.Enqueue(t.Context(), openai(strconv.Itoa(i)), tasks.Options{MaxRetry: tasks.NoRetry}); err != nil {
				t.Fatal(err)
			}
		}
		ids := counts.await(t, n)
		slices.Sort(ids)
		if got := len(slices.Compact(ids)); got != n {
			t.Errorf("%d tasks started, want each of %d once", got, n)
		}
		all := counts.all()
		if len(all) > 2*n {
			t.Errorf("%d deliveries of %d tasks, want at most two each", len(all), n)
		}
		for _, d := range all {
			if d.retried != 0 {
				t.Errorf("task %s has used up %d retries by waiting", d.id, d.retried)
			}
		}
	})
}

func TestReservedTasksAreDeliveredOnceInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 40, 40
		client := inMemory(t)
		l, counts := limiter(t, store(), perSecond(rate, rate)), newLedger()
		ask(t, l, requests(1.5*rate)) // time to enqueue the tasks
		m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
		promoted := promotions(m.scheduler)
		start(t, m.scheduler)
		m.work(t, client)
		reserve(t, m.scheduler, numbered(n))
		counts.await(t, n)
		for i := range n {
			if got := receive(t, promoted).ID; got != fmt.Sprintf("%03d", i) {
				t.Fatalf("%s was promoted as number %d", got, i)
			}
		}
		if got := len(counts.all()); got != n || len(promoted) > 0 {
			t.Errorf("%d deliveries, want %d; %d promoted again", got, n, len(promoted))
		}
	})
}

func TestReservedBeyondMaxReserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, counts := inMemory(t), newLedger()
		limit := perSecond(40, 1)
		limit.Meters[0].MaxReserved = 4
		l := limiter(t, store(), limit)
		m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
		start(t, m.scheduler)
		m.work(t, client)
		reserve(t, m.scheduler, numbered(20))
		ids := counts.await(t, 20)
		slices.Sort(ids)
		if len(slices.Compact(ids)) != 20 {
			t.Errorf("started: %v", ids)
		}
	})
}

// A settlement of one process promotes a task in another one.
func TestChangedPromotes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := limiter(t, store(), perSecond(0.01, 1))
		ask(t, l, requests(1))
		s, other := newScheduler(t, client, l, exact()), newScheduler(t, client, l, exact())
		promoted := promotions(s)
		start(t, s)
		reserve(t, other, numbered(1))
		o, err := inside.Of(l).Settle(t.Context(), requests(1), reservations.Tokens{"requests": 0}, "")
		if err != nil {
			t.Fatal(err)
		}
		inside.Of(other).Changed(reservations.Outcome{})
		inside.Of(other).Changed(o)
		if err := other.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		receive(t, promoted)
	})
}

// Waiting tasks follow a changed limit without a delivery.
func TestAChangedLimitPromotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		l := limiter(t, store(), perSecond(0.01, 1))
		ask(t, l, requests(1))
		s := newScheduler(t, client, l, exact())
		promoted := promotions(s)
		start(t, s)
		reserve(t, s, numbered(3))
		if err := l.SetLimits([]reservations.Limit{perSecond(50, 1)}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			receive(t, promoted)
		}
	})
}

func TestAPausedQueueIsPassedOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := limiter(t, store(), perSecond(20, 1))
		s := newScheduler(t, client, l, exact())
		reserve(t, s, numbered(3), tasks.Options{Queue: "paused"})
		reserve(t, s, numbered(3))
		inspector := asynq.NewInspectorFromRedisClient(client)
		if err := inspector.PauseQueue("paused"); err != nil {
			t.Fatal(err)
		}
		promoted := promotions(s)
		start(t, s)
		seen := map[waitlist.Task]bool{}
		for i := range 6 {
			if i == 3 {
				if err := inspector.UnpauseQueue("paused"); err != nil {
					t.Fatal(err)
				}
			}
			got := receive(t, promoted)
			for seen[got] { // it did not begin in time, and is promoted again
				got = receive(t, promoted)
			}
			seen[got] = true
			if want := map[bool]string{true: "default", false: "paused"}[i < 3]; got.Queue != want {
				t.Errorf("number %d is %v", i, got)
			}
			if i < 3 { // asks, so that the next one is planned
				ask(t, l, requests(1))
			}
		}
	})
}

// If the dispatcher dies between promotion and delivery, another one delivers the task within two seconds: the task
// does not wait to be promoted again.
func TestTakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, counts := inMemory(t), newLedger()
		l := limiter(t, store(), perSecond(1, 1))
		heir := newScheduler(t, client, l, exact())
		reserve(t, heir, numbered(1))
		w := waits{heir, t, l, waitlist.New(client)}
		w.promote("000")
		died := time.Now()
		m := &member{scheduler: heir, limiter: l, delivered: counts.delivered}
		m.work(t, client)
		start(t, heir)
		counts.await(t, 1)
		if took := time.Since(died); took > 2*time.Second {
			t.Errorf("delivered after %v", took)
		}
	})
}

// A dispatcher may be faster than asynq, which puts a task back only after its handler has returned.
func TestATaskThatIsStillActiveIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		l := limiter(t, store(), perSecond(20, 1))
		s := newScheduler(t, client, l, exact())
		promoted := promotions(s)
		ask(t, l, requests(1))
		start(t, s)
		var deliveries atomic.Int64
		finished := make(chan struct{})
		serve(t, client, func(ctx context.Context, _ *asynq.Task) error {
			if deliveries.Add(1) == 2 {
				close(finished)
				return nil
			}
			id, _ := asynq.GetTaskID(ctx)
			outcomes, err := inside.Of(l).Reserve(ctx, requests(1))
			if err != nil {
				return err
			}
			deferred := inside.Of(s).Wait(ctx, named(id), dispatcher.Turn{},
				dispatcher.Stop{Charge: requests(1), Outcome: outcomes[0]})
			<-promoted
			return deferred
		}, asynq.Config{TaskCheckInterval: 20 * time.Millisecond})
		if _, err := s.Enqueue(t.Context(), openai("a")); err != nil {
			t.Fatal(err)
		}
		receive(t, finished)
	})
}

// A waiting task whose own retries are used up is not archived.
func TestAForeignTaskWithoutRetriesIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, counts := inMemory(t), newLedger()
		l := limiter(t, store(), perSecond(10, 1))
		m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
		start(t, m.scheduler)
		m.work(t, client)
		producer := asynq.NewClientFromRedisClient(client)
		for range 5 {
			if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("call", nil), asynq.MaxRetry(0)); err != nil {
				t.Fatal(err)
			}
		}
		counts.await(t, 5)
	})
}

// Tasks that an operator has deleted or archived leave the waitlist, and do not run.
func TestTasksThatHaveEndedLeaveTheWaitlist(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, limiter(t, store(), perSecond(2, 2)), exact())
		reserve(t, s, numbered(3))
		inspector := asynq.NewInspectorFromRedisClient(client)
		if err := errors.Join(inspector.DeleteTask("default", "000"), inspector.ArchiveTask("default", "001")); err != nil {
			t.Fatal(err)
		}
		promoted := promotions(s)
		start(t, s)
		for range 3 { // the third in a later look
			receive(t, promoted)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if list, err := inside.Of(s).Waitlist(t.Context(), "openai"); err != nil || list.Waiting+list.Promoted != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if info, err := inspector.GetTaskInfo("default", "001"); err != nil || info.State != asynq.TaskStateArchived {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// After an outage of the store, one task finds that it answers, without using a retry.
func TestOutageKeepsThePlaceAndNoRetryIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, counts := inMemory(t), newLedger()
		flaky := &switched{Store: store()}
		l := limiter(t, flaky, perSecond(10, 1))
		m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
		flaky.off.Store(true)
		start(t, m.scheduler)
		m.work(t, client)
		for i := range 3 {
			if _, err := m.scheduler.Enqueue(t.Context(), openai("a"),
				tasks.Options{MaxRetry: tasks.NoRetry, ID: strconv.Itoa(i)}); err != nil {
				t.Fatal(err)
			}
		}
		text := awaitText(t, client, "0")
		if !strings.Contains(text, "waiting for limit openai (waiting), which could not be asked: until ") ||
			!strings.Contains(text, "no route") {
			t.Errorf("text = %q", text)
		}
		flaky.off.Store(false)
		counts.await(t, 3)
		for _, d := range counts.all() {
			if d.retried != 0 {
				t.Error("an outage used up a retry")
			}
		}
	})
}

// awaitText polls for the error text of a task, because asynq sends no event for it.
func awaitText(t *testing.T, client redis.UniversalClient, id string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	inspector := asynq.NewInspectorFromRedisClient(client)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := inspector.GetTaskInfo("default", id); err == nil && info.LastErr != "" {
			return info.LastErr
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the task was not deferred")
		}
	}
}

func TestADispatcherHealsWhenRedisWasDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client := server.Client(t)
		l := limiter(t, store(), perSecond(100, 1))
		s := newScheduler(t, client, l, exact())
		promoted := promotions(s)
		start(t, s)
		reserve(t, s, numbered(1))
		receive(t, promoted)
		server.Wire.Set(network.Refuse)
		o := ask(t, l, requests(1))
		inside.Of(s).Changed(o) // must not block
		infos, err := s.EnqueueMany(t.Context(), slices.Repeat([]tasks.Args{openai("b")}, 50))
		if err == nil || slices.ContainsFunc(infos, func(i *asynq.TaskInfo) bool { return i != nil }) {
			t.Errorf("enqueue = %v, want an error and no task", err)
		}
		server.Wire.Set(network.Up)
		var info *asynq.TaskInfo
		until(t, "a connection is new", func() bool { // the old ones are broken
			info, err = s.Enqueue(t.Context(), openai("c"))
			return err == nil
		})
		for receive(t, promoted).ID != info.ID { // the first task may be promoted again, because it did not begin
		}
	})
}
