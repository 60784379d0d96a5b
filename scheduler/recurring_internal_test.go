package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks"
)

type digest struct {
	Day int `json:"day"`
}

func (digest) TaskType() string { return "digest" }

// clockwork is a fleet of processes with one recurring task, in a bubble whose clock the test sets.
type clockwork struct {
	t         *testing.T
	server    *memredis.Server
	now       time.Time
	recurring Recurring
	inspector *asynq.Inspector
	starts    map[string]int // by ID of the task
}

func newClockwork(t *testing.T, r Recurring) *clockwork {
	t.Helper()
	c := &clockwork{t: t, recurring: r, starts: map[string]int{}}
	c.set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	c.server = memredis.Serve(t)
	c.inspector = asynq.NewInspectorFromRedisClient(c.server.Client(t))
	return c
}

func (c *clockwork) set(now time.Time) {
	c.now = now
	<-time.After(time.Until(now))
}

// process is one process of the fleet, which may die.
type process struct {
	*Scheduler

	life *mortal
}

func (c *clockwork) process() *process {
	c.t.Helper()
	life := &mortal{}
	config := Config{Recurring: []Recurring{c.recurring}, Logger: slog.New(slog.DiscardHandler)}
	client := c.server.Client(c.t)
	client.AddHook(life)
	s, err := New(client, nil, config)
	if err != nil {
		c.t.Fatal(err)
	}
	return &process{Scheduler: s, life: life}
}

// mortal ends a process at one of its calls to Redis: before Redis receives the call, or before the process receives
// the answer.
type mortal struct {
	calls    atomic.Int64
	diesAt   int64 // the number of the call; zero: never
	answered bool  // Redis executes the last call
	dead     bool
}

var errKilled = errors.New("killed")

func (m *mortal) die(call func() error) error {
	if m.dead {
		return errKilled
	}
	if n := m.calls.Add(1); m.diesAt > 0 && n >= m.diesAt {
		if m.dead = true; m.answered {
			_ = call()
		}
		return errKilled
	}
	return call()
}

func (m *mortal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mortal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := m.die(func() error { return next(ctx, cmd) })
		if errors.Is(err, errKilled) {
			cmd.SetErr(err)
		}
		return err
	}
}

func (m *mortal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return m.die(func() error { return next(ctx, cmds) })
	}
}

// look lets the process look at its schedules.
func (c *clockwork) look(p *process) {
	c.t.Helper()
	if _, err := p.tickAll(c.t.Context(), p.recurring); err != nil && !p.life.dead {
		c.t.Fatal(err)
	}
	c.work()
}

// work runs every pending task to its end, and deletes it in Redis.
func (c *clockwork) work() {
	c.t.Helper()
	pending, err := c.inspector.ListPendingTasks("default", asynq.PageSize(100))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		c.t.Fatal(err)
	}
	for _, info := range pending {
		c.starts[info.ID]++
		if err := c.inspector.DeleteTask("default", info.ID); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Three processes look at the schedule for 60 minutes. Ten times the first one to look is killed, each time at
// another of its calls to Redis, and replaced. Each minute has exactly one start.
func TestEachTickStartsOnceWhileLeadersAreKilled(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, seed))
				c := newClockwork(t, Recurring{Name: "minutely", Spec: "* * * * *", Args: digest{Day: 1}})
				fleet := []*process{c.process(), c.process(), c.process()}
				for _, p := range fleet {
					c.look(p)
				}
				began, killed := c.now, 0
				for minute := 1; minute <= 60; minute++ {
					random.Shuffle(len(fleet), func(i, j int) { fleet[i], fleet[j] = fleet[j], fleet[i] })
					c.set(began.Add(time.Duration(minute)*time.Minute + time.Duration(random.IntN(200))*time.Millisecond))
					if minute%6 == 3 { // the first to look is the leader
						life, n := fleet[0].life, minute/6 // before or after it reads the last tick, before or after it enqueues
						life.diesAt, life.answered = life.calls.Load()+1+int64(n%2), n/2%2 == 1
					}
					for i, p := range fleet {
						if c.look(p); p.life.dead {
							killed++
							fleet[i] = c.process()
						}
						p.life.diesAt = 0
					}
					for _, p := range fleet {
						c.look(p)
					}
				}
				if killed != 10 {
					t.Errorf("%d were killed, want 10", killed)
				}
				if len(c.starts) != 60 {
					t.Errorf("%d minutes have a start, want 60", len(c.starts))
				}
				for minute := 1; minute <= 60; minute++ {
					id := "minutely@" + began.Add(time.Duration(minute)*time.Minute).Format("2006-01-02T15:04:05Z")
					if c.starts[id] != 1 {
						t.Errorf("%s started %d times", id, c.starts[id])
					}
				}
			})
		})
	}
}

// The first look at a schedule starts nothing; after an outage of the fleet, the last missed tick starts once.
func TestTheLastMissedTickStartsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork(t, Recurring{Name: "minutely", Spec: "* * * * *", Args: digest{}})
		c.set(c.now.Add(30 * time.Second))
		c.look(c.process())
		if len(c.starts) > 0 {
			t.Fatalf("started at once: %v", c.starts)
		}
		c.set(c.now.Add(10 * time.Minute))
		for range 3 {
			c.look(c.process())
		}
		if len(c.starts) != 1 || c.starts["minutely@2026-11-22T12:10:00Z"] != 1 {
			t.Errorf("after ten minutes: %v", c.starts)
		}
	})
}

func TestATickThatIsTooLateIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork(t, Recurring{Name: "hourly", Spec: "@hourly", StartWithin: time.Minute, Args: digest{}})
		p := c.process()
		c.look(p)
		c.set(c.now.Add(time.Hour + time.Minute))
		c.look(p)
		c.set(c.now.Add(time.Minute))
		c.look(c.process())
		if len(c.starts) > 0 {
			t.Errorf("started: %v", c.starts)
		}
		if n := p.life.calls.Load(); n > 10 {
			t.Errorf("%d calls for a skipped tick", n)
		}
	})
}

// A changed schedule begins with its next tick, even while processes with the old schedule run. A tick of both
// schedules starts once.
func TestAChangedSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork(t, Recurring{Name: "r", Spec: "*/10 * * * *", Args: digest{}})
		old := c.process()
		c.look(old)
		c.set(c.now.Add(5*time.Minute + time.Second))
		c.recurring.Spec = "* * * * *"
		changed := c.process()
		c.look(changed)
		if len(c.starts) > 0 {
			t.Errorf("started at the change: %v", c.starts)
		}
		for range 10 {
			c.set(c.now.Add(time.Minute))
			c.look(old)
			c.look(changed)
		}
		for id, n := range c.starts {
			if n != 1 {
				t.Errorf("%s started %d times", id, n)
			}
		}
		if len(c.starts) != 10 {
			t.Errorf("%d ticks, want 10: %v", len(c.starts), c.starts)
		}
	})
}

// A tick of a unique recurring task is skipped while the task before waits or runs.
func TestAUniqueRecurringTaskDoesNotOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClockwork(t, Recurring{Name: "r", Spec: "* * * * *", Args: digest{}, Options: tasks.Options{Unique: "r"}})
		p := c.process()
		c.look(p)
		tick := func() {
			t.Helper()
			c.set(c.now.Add(time.Minute))
			if _, err := p.tickAll(t.Context(), p.recurring); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			tick()
		}
		c.work()
		if _, err := p.tickAll(t.Context(), p.recurring); err != nil {
			t.Fatal(err)
		}
		c.work()
		if len(c.starts) != 1 || c.starts["r@2026-11-22T12:01:00Z"] != 1 {
			t.Errorf("started: %v", c.starts)
		}
		tick()
		if c.work(); c.starts["r@2026-11-22T12:06:00Z"] != 1 {
			t.Errorf("started: %v", c.starts)
		}
	})
}

func TestAllRecurringFaultsAreReported(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	_, err := New(client, nil, Config{Delivery: time.Second, Recurring: []Recurring{
		{Name: "a", Spec: "61 * * * *", StartWithin: -1, Args: digest{}},
		{Name: "b", Spec: "@daily", Zone: "Mars", Options: tasks.Options{Queue: " ", ID: "x"}},
		{Name: "b", Spec: "@daily", Args: digest{}},
		{Name: "c d", Spec: "@daily", Args: digest{}},
	}})
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"delivery: ", "recurring.a.spec: ", "recurring.a.start_within: ", "recurring.b.zone: ", "recurring.b.queue: ",
		"recurring.b.options: ",
		"recurring.b: there are two", "recurring.3.name: ",
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// charged is a digest with a charge.
type charged struct {
	digest

	limit, meter string
}

func (c charged) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: c.limit, Tokens: reservations.Tokens{c.meter: 1}}}
}

func TestARecurringTaskThatItsLimitNeverServesIsRefused(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	known := reservations.Limit{Name: "known", Meters: []reservations.Meter{reservations.PerMinute("requests", 60)}}
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{known}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args charged
		want error
	}{
		{charged{limit: "known", meter: "requests"}, nil},
		{charged{limit: "unknown", meter: "requests"}, reservations.ErrUnknownLimit},
		{charged{limit: "known", meter: "bytes"}, reservations.ErrUnknownMeter},
	} {
		_, err := New(client, limiter, Config{Recurring: []Recurring{{Name: "a", Spec: "@daily", Args: c.args}}})
		if !errors.Is(err, c.want) {
			t.Errorf("%s of %s: %v, want %v", c.args.meter, c.args.limit, err, c.want)
		}
		if c.want != nil && !strings.Contains(err.Error(), "recurring.a.args: ") {
			t.Errorf("no path in %v", err)
		}
	}
}
