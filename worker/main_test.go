package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis reports each dial that fails on the standard error
	goleak.VerifyTestMain(m)
}

// patience is how long a test in a bubble waits for an event, in virtual time. That is less than what would come to its
// help: asynq's leases, and the time after which asynq delivers a waiting task by itself.
const patience = 20 * time.Second

// call is a limited task.
type call struct {
	N     int     `json:"n"`
	Cost  float64 `json:"cost"`
	Limit string  `json:"limit,omitempty"`
}

func (call) TaskType() string { return "call" }

func (c call) Charges() []reservations.Charge {
	if c.Limit == "" {
		c.Limit = "api"
	}
	return []reservations.Charge{{Limit: c.Limit, Tokens: reservations.Tokens{"tokens": c.Cost}}}
}

// free is a task without a limit.
type free struct {
	N int `json:"n"`
}

func (free) TaskType() string { return "free" }

// slow returns a limit that does not refill during a test.
func slow(capacity float64) reservations.Limit {
	return reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1, Period: time.Hour, Capacity: capacity},
	}}
}

// bundle is a Redis, a store that can fail, and the workers of a test.
type bundle struct {
	t         *testing.T
	server    *embedded.Redis // nil if Redis is a process
	client    redis.UniversalClient
	inspector *asynq.Inspector
	store     *faultStore
	limiter   *reservations.Limiter
	scheduler *scheduler.Scheduler // of a producer

	starts      chan worker.Event
	deferrals   chan worker.Event
	finishes    chan worker.Event
	refusals    chan worker.Event
	settlements chan worker.Event
	blocks      chan worker.Event
	syncs       chan worker.Event
}

// settling is more than a second: go-redis tries to dial once a second until it sees that its pool is closed.
const settling = 10 * time.Second

// setup returns a bundle with a Redis in memory. It is called in a testing/synctest bubble.
func setup(t *testing.T, limits ...reservations.Limit) *bundle {
	t.Helper()
	t.Cleanup(func() { <-time.After(settling) }) // the last one: no virtual time passes after it
	server := embedded.New()
	t.Cleanup(server.Close)
	client, _ := connect(t, server)
	b := setupOn(t, client, limits...)
	b.server = server
	return b
}

// connect returns a client of one process, and its network.
func connect(t *testing.T, server *embedded.Redis) (*redis.Client, *network.Wire) {
	t.Helper()
	wire := network.New(network.NewConditions(0, 0, 0, 0), server.Serve)
	client := memredis.Client(t, wire.Dial)
	return client, wire
}

// setupOn returns a bundle with the Redis of the client.
func setupOn(t *testing.T, client *redis.Client, limits ...reservations.Limit) *bundle {
	t.Helper()
	const many = 10000
	b := &bundle{
		t: t, client: client, store: &faultStore{Store: memstore.New()},
		starts: make(chan worker.Event, many), deferrals: make(chan worker.Event, many),
		finishes: make(chan worker.Event, many),
		refusals: make(chan worker.Event, many), settlements: make(chan worker.Event, many),
		blocks: make(chan worker.Event, many), syncs: make(chan worker.Event, many),
	}
	b.inspector = asynq.NewInspectorFromRedisClient(b.client)
	var err error
	if b.limiter, err = reservations.New(b.store, limits, reservations.Config{}); err != nil {
		t.Fatal(err)
	}
	if b.scheduler, err = scheduler.New(b.client, nil, scheduler.Config{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// events fills the bundle's channels.
func (b *bundle) events() []func(worker.Event) {
	return []func(worker.Event){func(e worker.Event) {
		if e.Ended() {
			b.finishes <- e
			return
		}
		to := map[worker.Kind]chan worker.Event{
			worker.KindStarted: b.starts, worker.KindDeferred: b.deferrals, worker.KindRejected: b.refusals,
			worker.KindBlocked: b.blocks, worker.KindSettled: b.settlements, worker.KindSynced: b.syncs,
		}
		if c := to[e.Kind]; c != nil {
			c <- e
		}
	}}
}

// only calls do for the events of one kind.
func only(kind worker.Kind, do func(worker.Event)) func(worker.Event) {
	return func(e worker.Event) {
		if e.Kind == kind {
			do(e)
		}
	}
}

// worker returns a worker that is not started yet.
func (b *bundle) worker(config worker.Config) *worker.Worker {
	b.t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.Events = b.events()
	w, err := worker.New(b.client, b.limiter, config)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// start starts a worker and stops it when the test ends.
func (b *bundle) start(w *worker.Worker) {
	b.t.Helper()
	if err := w.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := w.Stop(context.WithoutCancel(b.t.Context())); err != nil {
			b.t.Errorf("stop: %v", err)
		}
	})
}

// run starts a worker with one handler for calls.
func (b *bundle) run(handler func(context.Context, *worker.Job[call]) error) {
	b.t.Helper()
	w := b.worker(worker.Config{})
	worker.Handle(w, handler)
	b.start(w)
}

func (b *bundle) enqueue(args tasks.Args, options ...tasks.Options) *asynq.TaskInfo {
	b.t.Helper()
	info, err := b.scheduler.Enqueue(b.t.Context(), args, options...)
	if err != nil {
		b.t.Fatal(err)
	}
	return info
}

// info waits until the task is in the state, and returns asynq's info.
func (b *bundle) info(id string, state asynq.TaskState) *asynq.TaskInfo {
	b.t.Helper()
	var info *asynq.TaskInfo
	eventually(b.t, "task "+id+" is "+state.String(), func() bool {
		var err error
		info, err = b.inspector.GetTaskInfo("default", id)
		return err == nil && info.State == state
	})
	return info
}

// gone waits until asynq has deleted the task.
func (b *bundle) gone(id string) {
	b.t.Helper()
	eventually(b.t, "task "+id+" is gone", func() bool {
		_, err := b.inspector.GetTaskInfo("default", id)
		return err != nil
	})
}

// hurry runs a task that waits for its retry at once.
func (b *bundle) hurry(id string) {
	b.t.Helper()
	b.info(id, asynq.TaskStateRetry)
	if err := b.inspector.RunTask("default", id); err != nil {
		b.t.Fatal(err)
	}
}

// balance returns the started balance of the limit api.
func (b *bundle) balance() float64 {
	b.t.Helper()
	return b.balanceOf("api", "")
}

func (b *bundle) balanceOf(limit, key string) float64 {
	b.t.Helper()
	held, _, _ := bucket.Read(b.t.Context(), b.store, limit, key)
	if len(held.Meters) == 0 {
		b.t.Fatal("nothing was ever charged")
	}
	return held.Meters[0].Started
}

// eventually polls, because asynq sends no event when the state of a task changes in Redis.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond) //gate:ok polls until patience ends
	defer tick.Stop()
	timeout := time.NewTimer(patience) //gate:ok patience is minutes
	defer timeout.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// receive waits for the next value.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	return receiveIn(t, c, patience)
}

// receiveIn waits for the next value, for a time of the bubble.
func receiveIn[T any](t *testing.T, c <-chan T, most time.Duration) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(most): //gate:ok nothing is expected
		t.Fatalf("no %T within %v", *new(T), most)
		panic("unreachable")
	}
}

// faultStore is a memstore that fails on demand.
type faultStore struct {
	*memstore.Store

	mu      sync.Mutex // guards the fields below.
	down    bool
	gone    string        // the limit whose buckets are down.
	blocked chan struct{} // if not nil, no call is answered before it is closed.
	refuse  int           // the number of requests to start that are only reserved for, with an immediate RetryAt.
	hold    time.Duration // the hold of each start, if not zero.
	stall   time.Duration // the latency of the next answer.
	begun   int           // requests to start that reached the bucket.
	asked   int           // requests to start or to reserve that reached the store.
}

func (s *faultStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *faultStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	if err := s.passable(ctx); err != nil {
		return nil, &bucket.UnavailableError{Bucket: limit.Name, Applied: bucket.AppliedNo, Err: err}
	}
	defer s.deliver()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.gone == limit.Name {
		return nil, &bucket.UnavailableError{
			Bucket: limit.Name, Applied: bucket.AppliedNo, Err: context.DeadlineExceeded,
		}
	}
	var outcomes []bucket.Answer
	for _, r := range requests {
		if r.Op == bucket.OpStart || r.Op == bucket.OpReserve {
			s.asked++
		}
		if r.Op == bucket.OpStart && s.refuse > 0 {
			s.refuse--
			r.Op = bucket.OpReserve // as if others waited before it
		}
		o, err := bucket.Apply(ctx, s.Store, limit, key, []bucket.Request{r})
		if err != nil {
			return nil, err
		}
		if r.Op == bucket.OpStart {
			s.begun++
			if o[0].Started() && s.hold != 0 {
				o[0].Hold = s.hold
			}
		}
		outcomes = append(outcomes, o...)
	}
	return outcomes, nil
}

// deliver delays an answer.
func (s *faultStore) deliver() {
	s.mu.Lock()
	stall := s.stall
	s.stall = 0
	s.mu.Unlock()
	<-time.After(stall) //gate:ok called in bubbles
}

func (s *faultStore) passable(ctx context.Context) error {
	s.mu.Lock()
	blocked := s.blocked
	s.mu.Unlock()
	if blocked == nil {
		return nil
	}
	select {
	case <-blocked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *faultStore) set(change func(*faultStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// asks returns how often tasks asked buckets.
func (s *faultStore) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *faultStore) begins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}
