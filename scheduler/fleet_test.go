package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// patience is how long a test waits for an event. It is shorter than the delay of asynq's retry set, two minutes.
const patience = 100 * time.Second

// call is a task that takes requests from the limit "openai".
type call struct {
	Name     string `json:"name"`
	Limit    string `json:"-"`
	Key      string `json:"-"`
	Requests float64
	Fixed    tasks.Options `json:"-"`
}

func (call) TaskType() string { return "call" }

func (c call) TaskOptions() tasks.Options { return c.Fixed }

func (c call) Charges() []reservations.Charge {
	if c.Limit == "" {
		return nil
	}
	return []reservations.Charge{{Limit: c.Limit, Key: c.Key, Tokens: reservations.Tokens{"requests": c.Requests}}}
}

func openai(name string) call { return call{Name: name, Limit: "openai", Requests: 1} }

// inMemory connects to a Redis of its own within a bubble.
func inMemory(t *testing.T) *redis.Client {
	t.Helper()
	return memredis.Serve(t).Client(t)
}

// onBoth runs a test in a bubble, and on a real server in the night.
func onBoth(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, inMemory(t)) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		night.Only(t, "a stall of the machine may change what it sees; in memory it sees the same scripts")
		options, err := redis.ParseURL(testenv.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		options.ReadTimeout = patience // repeats no command after a stall
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		test(t, client)
	})
}

func limiter(t *testing.T, store reservations.Store, limits ...reservations.Limit) *reservations.Limiter {
	t.Helper()
	l, err := reservations.New(store, limits, reservations.Config{CallTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// perSecond returns the limit "openai" with an unlimited max_reserved.
func perSecond(rate, capacity float64) reservations.Limit {
	return reservations.Limit{Name: "openai", Meters: []reservations.Meter{
		{Name: "requests", Rate: rate, Period: time.Second, Capacity: capacity},
	}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func exact() scheduler.Config {
	return scheduler.Config{Logger: quiet()}
}

func newScheduler(
	t *testing.T, client redis.UniversalClient, l *reservations.Limiter, c scheduler.Config,
) *scheduler.Scheduler {
	t.Helper()
	s, err := scheduler.New(client, l, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_ = s.Stop(ctx) // Redis may be stopped by then
	})
	return s
}

// start starts a scheduler until the end of the test.
func start(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// delivery is one call of a handler.
type delivery struct {
	id      string
	at      time.Time
	outcome reservations.Outcome
	retried int
}

// member is a small worker: the core of package worker.
type member struct {
	scheduler *scheduler.Scheduler
	limiter   *reservations.Limiter
	// run is the handler of a task that may start; nil succeeds.
	run func(ctx context.Context, task *asynq.Task) error
	// delivered is called for each delivery.
	delivered func(delivery)
}

// work runs an asynq server with the member's handler until the end of the test.
func (m *member) work(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	serve(t, client, m.handle, asynq.Config{
		Concurrency: 20, TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
	})
}

// serve runs an asynq server whose tasks can wait, until the end of the test.
func serve(
	t *testing.T, client redis.UniversalClient, handle asynq.HandlerFunc, config asynq.Config,
) *asynq.Server {
	t.Helper()
	config.LogLevel, config.ShutdownTimeout = asynq.FatalLevel, time.Second
	config.IsFailure, config.RetryDelayFunc = dispatcher.IsFailure, dispatcher.RetryDelay
	var snoozes asynqdb.Snoozes
	server := asynq.NewServerFromRedisClient(asynqdb.ForServer(client, asynqdb.ServerConfig{Snoozes: &snoozes}), config)
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := handle(ctx, task)
		if deferred, ok := errors.AsType[*dispatcher.DeferredError](err); ok {
			id, _ := asynq.GetTaskID(ctx)
			queue, _ := asynq.GetQueueName(ctx)
			snoozes.Add(queue, id, deferred.Snooze(task))
		}
		return err
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server
}

func (m *member) handle(ctx context.Context, task *asynq.Task) error {
	d := delivery{at: time.Now()}
	d.id, _ = asynq.GetTaskID(ctx)
	d.retried, _ = asynq.GetRetryCount(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	name := waitlist.Task{Queue: queue, ID: d.id}
	c := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1}} // for foreign tasks too
	turn, err := inside.Of(m.scheduler).Arrive(ctx, name, []reservations.Charge{c})
	if err != nil {
		return err
	}
	if turn.State == waitlist.StateWaiting {
		m.delivered(d)
		return inside.Of(m.scheduler).Wait(ctx, name, turn,
			dispatcher.Stop{Charge: c, After: turn.Left(), Kept: true})
	}
	if turn.Behind(c) {
		outcomes, fault := inside.Of(m.limiter).Reserve(ctx, c)
		if err = fault; err == nil {
			d.outcome = outcomes[0]
		}
	} else {
		promoted := c
		promoted.Held = turn.Holds(c)
		d.outcome, err = inside.Of(m.limiter).Ask(ctx, promoted)
	}
	if err != nil {
		return inside.Of(m.scheduler).Wait(ctx, name, turn, dispatcher.Stop{Charge: c, Cause: err})
	}
	inside.Of(m.scheduler).Answered(ctx, c.Bucket())
	if !d.outcome.Started() {
		m.delivered(d)
		return inside.Of(m.scheduler).Wait(ctx, name, turn, dispatcher.Stop{Charge: c, Outcome: d.outcome})
	}
	wait(ctx, d.outcome.Hold)
	inside.Of(m.scheduler).Begun(name, turn, startOf{charge: c, outcome: d.outcome})
	m.delivered(d)
	if m.run != nil {
		return m.run(ctx, task)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d) //gate:ok called in bubbles
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ledger counts deliveries, and reports when enough tasks have started.
type ledger struct {
	mu         sync.Mutex // guards deliveries
	deliveries []delivery
	started    chan string
}

func newLedger() *ledger { return &ledger{started: make(chan string, 10000)} }

func (l *ledger) delivered(d delivery) {
	l.mu.Lock()
	l.deliveries = append(l.deliveries, d)
	l.mu.Unlock()
	if d.outcome.Started() {
		l.started <- d.id
	}
}

func (l *ledger) all() []delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]delivery(nil), l.deliveries...)
}

// await waits for n starts. The IDs are in the order of the starts.
func (l *ledger) await(t *testing.T, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var ids []string
	for len(ids) < n {
		select {
		case id := <-l.started:
			ids = append(ids, id)
		case <-ctx.Done():
			t.Fatalf("%d of %d tasks started: %v", len(ids), n, ctx.Err())
		}
	}
	return ids
}

func store() *memstore.Store { return memstore.New() }
