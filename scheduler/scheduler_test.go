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
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// Three workers with a waker each; everything has to be over before asynq's safety net could have helped.
func TestRefusedTasksComeBackOnTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		const n = 60
		l, counts := limiter(t, store(), perSecond(50, 5)), newLedger()
		for range 3 {
			m := &member{scheduler: newScheduler(t, client, l, scheduler.Config{Logger: quiet()}), limiter: l, delivered: counts.delivered}
			start(t, m.scheduler)
			m.work(t, client)
		}
		s := newScheduler(t, client, l, exact())
		for i := range n {
			if _, err := s.Enqueue(t.Context(), openai(strconv.Itoa(i)), scheduler.MaxRetry(0)); err != nil {
				t.Fatal(err)
			}
		}
		ids := counts.await(t, n)
		slices.Sort(ids)
		if got := len(slices.Compact(ids)); got != n {
			t.Errorf("%d tasks started, want each of %d once", got, n)
		}
		all := counts.all()
		if len(all) > 2*n+n/5 {
			t.Errorf("%d deliveries of %d tasks, want about two each", len(all), n)
		}
		for _, d := range all {
			if d.retried != 0 {
				t.Errorf("task %s has used up %d retries by waiting", d.id, d.retried)
			}
		}
	})
}

func TestReservedTasksAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		const n, rate = 40, 20
		l, counts := limiter(t, store(), perSecond(rate, rate)), newLedger()
		// The first is due in 1.5 s, which is time to enqueue them, and nobody is late who comes after their time by less than the capacity is
		// worth: this machine may stall for a second.
		if o := ask(t, l, reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 2.5 * rate}}); !o.Started() {
			t.Fatalf("%+v", o)
		}
		m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
		start(t, m.scheduler)
		m.work(t, client)
		var args []tasks.Args
		for i := range n {
			args = append(args, call{Name: "c", Limit: "openai", Requests: 1, Fixed: tasks.Options{ID: fmt.Sprintf("%02d", i)}})
		}
		if _, err := m.scheduler.EnqueueMany(t.Context(), args, scheduler.Reserved()); err != nil {
			t.Fatal(err)
		}
		counts.await(t, n)
		if got := len(counts.all()); got != n {
			t.Errorf("%d deliveries, want %d", got, n)
		}
	})
}

func TestReservedTasksStandInOrderAboveTheSafetyNet(t *testing.T) {
	t.Parallel()
	client := mini(t)
	l := limiter(t, store(), perSecond(10, 1), reservations.Limit{Name: "other", Meters: []reservations.Meter{reservations.PerSecond("requests", 1)}})
	s := newScheduler(t, client, l, exact())
	var args []tasks.Args
	for i := range 300 {
		c := openai(strconv.Itoa(i))
		if i%3 == 1 {
			c.Limit = "other"
		}
		if i%3 == 2 {
			c.Limit = ""
		}
		args = append(args, c)
	}
	before := time.Now()
	infos, err := s.EnqueueMany(t.Context(), args, scheduler.Reserved(), scheduler.Queue("batch"))
	if err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(client)
	for limit := range 2 {
		last := time.Time{}
		for i := limit; i < len(infos); i += 3 {
			due := infos[i].NextProcessAt
			if !due.After(last) {
				t.Fatalf("task %d: due %v, not after the one before it, %v", i, due, last)
			}
			last = due
			kept, err := inspector.GetTaskInfo("batch", infos[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			if net := kept.NextProcessAt.Sub(due); net < 9*time.Second || net > 30*time.Second || kept.State != asynq.TaskStateScheduled {
				t.Fatalf("task %d: asynq has it %v, %v after it is due, want 10s and a tenth of the wait", i, kept.State, net)
			}
		}
		if want := before.Add([]time.Duration{9900 * time.Millisecond, 99 * time.Second}[limit]); last.Sub(want).Abs() > 5*time.Second {
			t.Errorf("limit %d: the last is due at %v, want about %v", limit, last, want)
		}
	}
	for i := 2; i < len(infos); i += 3 {
		if infos[i].State != asynq.TaskStatePending {
			t.Fatalf("task %d has no limit and is %v", i, infos[i].State)
		}
	}
}

// Behind max_reserved a reservation is a ticket: the task comes back to be given a time.
func TestReservedBeyondMaxReserved(t *testing.T) {
	t.Parallel()
	client, counts := mini(t), newLedger()
	limit := perSecond(20, 1)
	limit.Meters[0].MaxReserved = 4
	l := limiter(t, store(), limit)
	m := &member{scheduler: newScheduler(t, client, l, scheduler.Config{Logger: quiet()}), limiter: l, delivered: counts.delivered}
	start(t, m.scheduler)
	m.work(t, client)
	var args []tasks.Args
	for range 20 {
		args = append(args, openai("c"))
	}
	if _, err := m.scheduler.EnqueueMany(t.Context(), args, scheduler.Reserved()); err != nil {
		t.Fatal(err)
	}
	counts.await(t, len(args))
}

func TestReservationsAreGivenBackWhenATaskIsThereAlready(t *testing.T) {
	t.Parallel()
	client := mini(t)
	l := limiter(t, store(), perSecond(1, 1))
	s := newScheduler(t, client, l, exact())
	first, err := s.Enqueue(t.Context(), openai("a"), scheduler.Reserved(), scheduler.ID("a"))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err = s.Enqueue(t.Context(), openai("a"), scheduler.Reserved(), scheduler.ID("a")); !errors.Is(err, asynq.ErrTaskIDConflict) {
			t.Fatalf("err = %v, want ErrTaskIDConflict", err)
		}
	}
	skipped, err := s.Enqueue(t.Context(), openai("a"), scheduler.Reserved(), scheduler.ID("a"), scheduler.SkipExisting())
	if err != nil || skipped != nil {
		t.Fatalf("info = %v, %v, want none and no error", skipped, err)
	}
	next, err := s.Enqueue(t.Context(), openai("b"), scheduler.Reserved())
	if err != nil {
		t.Fatal(err)
	}
	if gap := next.NextProcessAt.Sub(first.NextProcessAt); gap > 1500*time.Millisecond {
		t.Errorf("the second task is due %v after the first, want 1s: places were not given back", gap)
	}
	held, err := s.Recall(t.Context(), scheduler.Task{Queue: "default", ID: "a"})
	if err != nil || len(held) != 1 || held[0].State != reservations.StateReserved {
		t.Errorf("the place of the first task is %v, %v: the conflicts must not touch it", held, err)
	}
}

func TestReservedWhenTheStoreIsDown(t *testing.T) {
	t.Parallel()
	client := mini(t)
	s := newScheduler(t, client, limiter(t, down{}, perSecond(1, 1)), exact())
	infos, err := s.EnqueueMany(t.Context(), []tasks.Args{openai("a"), openai("b")}, scheduler.Reserved())
	if !errors.Is(err, reservations.ErrUnavailable) || !strings.Contains(err.Error(), "2 of 2 tasks were not sent") {
		t.Errorf("err = %v", err)
	}
	if infos[0] != nil || infos[1] != nil || client.DBSize(t.Context()).Val() != 0 {
		t.Error("something was enqueued")
	}
}

// down is a store that never answers.
type down struct{}

func (down) Apply(context.Context, reservations.Limit, string, []reservations.Request) ([]reservations.Outcome, error) {
	return nil, &reservations.UnavailableError{Bucket: "openai", Applied: reservations.AppliedNo, Err: errors.New("no route")}
}

func (down) Reset(context.Context, reservations.Limit, string) error { return nil }

func (down) Bucket(context.Context, string, string) (reservations.Bucket, bool, error) {
	return reservations.Bucket{}, false, &reservations.UnavailableError{Bucket: "openai", Applied: reservations.AppliedNo, Err: errors.New("no route")}
}

// switched is a store that can be down for a while.
type switched struct {
	*memstore.Store

	off atomic.Bool
}

func (s *switched) Apply(ctx context.Context, l reservations.Limit, key string, r []reservations.Request) ([]reservations.Outcome, error) {
	if s.off.Load() {
		return down{}.Apply(ctx, l, key, r)
	}
	return s.Store.Apply(ctx, l, key, r)
}

func TestOutageKeepsThePlaceAndNoRetryIsUsed(t *testing.T) {
	t.Parallel()
	client, counts := mini(t), newLedger()
	flaky := &switched{Store: store()}
	l := limiter(t, flaky, perSecond(10, 1))
	m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
	start(t, m.scheduler)
	m.work(t, client)
	flaky.off.Store(true)
	info, err := m.scheduler.Enqueue(t.Context(), openai("a"), scheduler.MaxRetry(0))
	if err != nil {
		t.Fatal(err)
	}
	text := awaitText(t, client, info.ID)
	if !strings.Contains(text, "waiting for limit openai (new), which could not be asked: until ") || !strings.Contains(text, "no route") {
		t.Errorf("text = %q", text)
	}
	flaky.off.Store(false)
	counts.await(t, 1)
	if d := counts.all(); d[len(d)-1].retried != 0 {
		t.Error("an outage used up a retry")
	}
}

// awaitText polls for the error text of a task: asynq has no event for it.
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

// A place that was reserved before an outage is the same after it.
func TestDeferOutageKeepsThePlace(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, mini(t), nil, exact())
	task, c := scheduler.Task{Queue: "default", ID: "a"}, openai("a").Charges()[0]
	place := reservations.Place{State: reservations.StateReserved, Due: time.Now().UTC(), Generation: 5}
	other := scheduler.Held{Place: reservations.Place{State: reservations.StateLate, Generation: 7, Shard: 3}, Bucket: "tenant#3:a"}
	err := s.DeferOutage(t.Context(), task, c, place, reservations.ErrUnavailable, other)
	var deferred *scheduler.DeferredError
	if !errors.As(err, &deferred) || deferred.Delay < time.Second || deferred.Delay > 2*time.Second || scheduler.IsFailure(err) {
		t.Fatalf("err = %v, want a deferral of 1s to 2s", err)
	}
	got, err := s.Recall(t.Context(), task)
	if want := []scheduler.Held{{Place: place, Bucket: "openai"}, other}; err != nil || !slices.Equal(got, want) {
		t.Errorf("places = %v, %v, want %v", got, err, want)
	}
	if !got[1].For(reservations.Charge{Limit: "tenant", Key: "a"}) || got[1].For(reservations.Charge{Limit: "tenant", Key: "b"}) || got[0].For(reservations.Charge{Limit: "tenant"}) {
		t.Errorf("%v is taken for another bucket's", got)
	}
}

// A shift must wake those who wait without anybody delivering them first.
func TestMovedWakesThoseWhoWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		frozen := time.Now()
		l := limiter(t, memstore.New(func() time.Time { return frozen }), perSecond(0.01, 1)) // the second task is due in 100 s
		s, other := newScheduler(t, client, l, exact()), newScheduler(t, client, l, exact())
		woken := make(chan scheduler.Task, 10)
		s.Observe(func(tasks []scheduler.Task, _ int, _ error) {
			for _, task := range tasks {
				woken <- task
			}
		})
		start(t, s)
		first, err := other.Enqueue(t.Context(), openai("a"), scheduler.Reserved())
		if err != nil {
			t.Fatal(err)
		}
		second, err := other.Enqueue(t.Context(), openai("b"), scheduler.Reserved())
		if err != nil {
			t.Fatal(err)
		}
		if got := receive(t, woken); got.ID != first.ID {
			t.Fatalf("%v was woken, want the first", got)
		}
		// The first has used nothing: what it gives back moves the line by 100 s. The other process tells, when it stops.
		c := openai("a").Charges()[0]
		if _, err = l.Begin(t.Context(), c, reservations.Place{State: reservations.StateReserved}); err != nil {
			t.Fatal(err)
		}
		settled, err := l.Settle(t.Context(), c, reservations.Tokens{"requests": 0}, "")
		if err != nil {
			t.Fatal(err)
		}
		other.Moved("openai", reservations.Outcome{})
		other.Moved("openai", settled)
		if err := other.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, woken); got.ID != second.ID {
			t.Errorf("%v was woken, want the second", got)
		}
	})
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// A waker may be faster than asynq, which puts a task back only after the handler has returned.
func TestATaskThatIsStillActiveIsTriedAgain(t *testing.T) {
	t.Parallel()
	client := mini(t)
	l := limiter(t, store(), perSecond(100, 1))
	s := newScheduler(t, client, l, exact())
	looked := make(chan struct{}, 1)
	s.Observe(func(tasks []scheduler.Task, _ int, _ error) {
		if len(tasks) > 0 {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
	})
	start(t, s)
	var deliveries atomic.Int64
	finished := make(chan struct{})
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		TaskCheckInterval: 20 * time.Millisecond, LogLevel: asynq.FatalLevel, IsFailure: scheduler.IsFailure, RetryDelayFunc: scheduler.RetryDelay,
	})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		task := scheduler.Task{Queue: "default", ID: id}
		if _, err := s.Recall(ctx, task); err != nil || deliveries.Add(1) == 2 {
			close(finished)
			return err
		}
		now := time.Now()
		deferred := s.Defer(ctx, task, openai("a").Charges()[0], reservations.Outcome{
			State: reservations.StateReserved, At: now, Due: now.Add(10 * time.Millisecond), Generation: 1, Version: 1,
		})
		<-looked // the waker has tried
		return deferred
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	if _, err := s.Enqueue(t.Context(), openai("a")); err != nil {
		t.Fatal(err)
	}
	receive(t, finished)
}

// asynq archives a task whose own retries are used up even when it only has to wait: the waker takes it out of there.
func TestAForeignTaskWithoutRetriesIsNotLost(t *testing.T) {
	t.Parallel()
	client, counts := mini(t), newLedger()
	l := limiter(t, store(), perSecond(3, 1))
	m := &member{scheduler: newScheduler(t, client, l, exact()), limiter: l, delivered: counts.delivered}
	start(t, m.scheduler)
	m.work(t, client)
	producer := asynq.NewClientFromRedisClient(client)
	for range 3 {
		if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("call", nil), asynq.MaxRetry(0)); err != nil {
			t.Fatal(err)
		}
	}
	counts.await(t, 3)
}

func TestAWakerHealsWhenRedisWasDown(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t)
	client := redisOf(t, &redis.Options{Addr: server.Addr(), MaxRetries: -1, DialTimeout: 200 * time.Millisecond})
	l := limiter(t, store(), perSecond(100, 1))
	s := newScheduler(t, client, l, exact())
	looks, woken := make(chan error, 1000), make(chan scheduler.Task, 10)
	s.Observe(func(tasks []scheduler.Task, _ int, err error) {
		looks <- err
		for _, task := range tasks {
			woken <- task
		}
	})
	start(t, s)
	for receive(t, looks) != nil {
	}
	server.Kill()
	for receive(t, looks) == nil {
	}
	// Nothing is lost that is told meanwhile; nothing blocks; a deferral that can't be noted falls back on asynq.
	now := time.Now()
	o := reservations.Outcome{State: reservations.StateReserved, At: now, Due: now.Add(time.Second), Generation: 1, Version: 1}
	s.Moved("openai", o)
	task := scheduler.Task{Queue: "default", ID: "a"}
	err := s.Defer(t.Context(), task, openai("a").Charges()[0], o)
	if d := scheduler.RetryDelay(0, err, nil); scheduler.IsFailure(err) || d < 2*time.Second || d > 3*time.Second {
		t.Errorf("%v comes back in %v, want 2s", err, d)
	}
	held, err := s.Recall(t.Context(), task)
	if err == nil || held != nil {
		t.Errorf("recall = %v, %v, want no place and an error", held, err)
	}
	infos, err := s.EnqueueMany(t.Context(), slices.Repeat([]tasks.Args{openai("b")}, 50), scheduler.Reserved())
	if err == nil || slices.ContainsFunc(infos, func(i *asynq.TaskInfo) bool { return i != nil }) {
		t.Errorf("enqueue = %v, want an error and no task", err)
	}
	server.Restart(t)
	info, err := s.Enqueue(t.Context(), openai("c"), scheduler.Reserved())
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(t, woken); got.ID != info.ID {
		t.Errorf("%v was woken, want %s", got, info.ID)
	}
}

func TestAWakerThatDiesLosesNothing(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redisOf(t, &redis.Options{Addr: server.Addr()})
	l := limiter(t, store(), perSecond(1000, 10))
	dying, heir := newScheduler(t, client, l, exact()), newScheduler(t, client, l, exact())
	if _, err := dying.EnqueueMany(t.Context(), slices.Repeat([]tasks.Args{openai("a")}, 10), scheduler.Reserved()); err != nil {
		t.Fatal(err)
	}
	if n, err := dying.TakeAndDie(t.Context()); err != nil || n != 10 {
		t.Fatalf("%d tasks were taken, %v, want 10", n, err)
	}
	woken := make(chan []scheduler.Task, 1000)
	heir.Observe(func(tasks []scheduler.Task, _ int, _ error) { woken <- tasks })
	start(t, heir)
	if got := receive(t, woken); len(got) != 0 {
		t.Errorf("%d tasks were taken that another has", len(got))
	}
	server.SetTime(time.Now().Add(3 * time.Second))
	count := 0
	for count < 10 {
		count += len(receive(t, woken))
	}
	pending, err := asynq.NewInspectorFromRedisClient(client).ListPendingTasks("default")
	if err != nil || count != 10 || len(pending) != 10 {
		t.Errorf("%d were woken, %d are on their way, %v, want 10", count, len(pending), err)
	}
}

// A line may outlive its tasks: an operator deletes one.
func TestDeletedTasksAreForgotten(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redisOf(t, &redis.Options{Addr: server.Addr()})
	s := newScheduler(t, client, limiter(t, store(), perSecond(2, 1)), exact())
	info, err := s.Enqueue(t.Context(), openai("a"), scheduler.Reserved())
	if err != nil {
		t.Fatal(err)
	}
	if err := asynq.NewInspectorFromRedisClient(client).DeleteTask("default", info.ID); err != nil {
		t.Fatal(err)
	}
	looks := make(chan int, 1000)
	s.Observe(func(tasks []scheduler.Task, _ int, _ error) { looks <- len(tasks) })
	start(t, s)
	for receive(t, looks) == 0 {
	}
	receive(t, looks) // the note is sent with the next look
	if server.Exists("headway:{line}:leased") || server.Exists("headway:{line}:index") {
		t.Error("a task that is gone is still being woken")
	}
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, mini(t), nil, scheduler.Config{})
	for i, step := range []func(context.Context) error{s.Stop, s.Start, s.Start, s.Stop, s.Stop, s.Start, s.Stop} {
		if err := step(t.Context()); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

func TestStopTellsThatItCouldNotFinish(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redisOf(t, &redis.Options{Addr: server.Addr(), MaxRetries: -1})
	s := newScheduler(t, client, nil, exact())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.SetError("LOADING busy")
	if err := s.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "stop the scheduler") {
		t.Errorf("err = %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}

func TestConfigFaultsAreAllTold(t *testing.T) {
	t.Parallel()
	_, err := scheduler.New(mini(t), nil, scheduler.Config{WakeEarly: time.Second, JitterReserved: time.Hour, JitterRefused: time.Hour})
	for _, field := range []string{"wake_early", "jitter_reserved", "jitter_refused"} {
		if !errors.Is(err, scheduler.ErrInvalidConfig) || !strings.Contains(err.Error(), field+":") {
			t.Errorf("err = %v, want ErrInvalidConfig with %s", err, field)
		}
	}
	if _, err := scheduler.New(nil, nil, scheduler.Config{}); !errors.Is(err, scheduler.ErrInvalidConfig) {
		t.Errorf("no client: %v", err)
	}
}
