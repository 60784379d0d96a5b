package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// both is a task with two limits: its tenant's, and the provider's.
type both struct {
	Tenant string  `json:"tenant"`
	Cost   float64 `json:"cost"`
	Calls  float64 `json:"calls,omitempty"` // taken of the tenant; zero names no such meter
}

func (both) TaskType() string { return "both" }

func (b both) Charges() []reservations.Charge {
	tenant := reservations.Tokens{"tokens": b.Cost}
	if b.Calls > 0 {
		tenant["calls"] = b.Calls
	}
	return []reservations.Charge{
		{Limit: "tenant", Key: b.Tenant, Tokens: tenant},
		{Limit: "api", Tokens: reservations.Tokens{"tokens": b.Cost}},
	}
}

// tenantOf returns the limit l, for each tenant.
func tenantOf(l reservations.Limit) reservations.Limit {
	l.Name = "tenant"
	return l
}

func okBoth(context.Context, *worker.Job[both]) error { return nil }

func (b *bundle) runBoth(handler func(context.Context, *worker.Job[both]) error) *worker.Worker {
	b.t.Helper()
	w := b.worker(worker.Config{})
	worker.Handle(w, handler)
	b.start(w)
	return w
}

// left waits until the started balance of a bucket that hardly fills is want.
func (b *bundle) left(limit, key string, want float64) {
	b.t.Helper()
	eventually(b.t, limit+" has the unused tokens", func() bool { return math.Abs(b.balanceOf(limit, key)-want) < 0.1 })
}

func TestTheProviderRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(100)), filling(time.Hour))
		jobs := make(chan []reservations.Charge, 2)
		b.runBoth(func(_ context.Context, job *worker.Job[both]) error {
			jobs <- job.Charges
			return nil
		})
		b.enqueue(both{Tenant: "a", Cost: 10})
		if s := receive(t, b.starts); len(s.Charges) != 2 || s.Waited || !s.Outcome.Started() {
			t.Errorf("start %+v", s)
		}
		b.enqueue(both{Tenant: "a", Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		d := receive(t, b.deferrals)
		if d.Charge.Limit != "api" || d.Outcome.State != bucket.StateReserved ||
			!strings.Contains(d.Err.Error(), "waiting for limit api") {
			t.Errorf("deferral %+v", d)
		}
		if s := receive(t, b.settlements); s.Charge.Bucket().String() != "tenant:a" || s.Used["tokens"] != 0 || s.Err != nil {
			t.Errorf("the tenant's start is given back by %+v", s)
		}
		b.left("tenant", "a", 90)
		b.refill(tenantOf(slow(100)), filling(time.Second))
		if s := receive(t, b.starts); !s.Waited || s.Charges[1].Limit != "api" {
			t.Errorf("start %+v", s)
		}
		b.left("tenant", "a", 80)
		receive(t, jobs)
		if got := receive(t, jobs); len(got) != 2 || got[0].Bucket().String() != "tenant:a" ||
			got[1].Bucket().String() != "api" {
			t.Errorf("the job's charges are %+v", got)
		}
		if len(b.deferrals) > 0 {
			t.Errorf("one more delivery than needed: %+v", receive(t, b.deferrals))
		}
	})
}

// A refusal by the tenant's limit does not change the provider's.
func TestTheTenantRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(filling(time.Hour)), slow(100))
		b.runBoth(okBoth)
		b.enqueue(both{Tenant: "a", Cost: 10})
		receive(t, b.finishes)
		b.enqueue(both{Tenant: "a", Cost: 10})
		if d := receive(t, b.deferrals); d.Charge.Bucket().String() != "tenant:a" {
			t.Errorf("deferral %+v", d)
		}
		b.left("api", "", 90)
		b.enqueue(both{Tenant: "b", Cost: 10})
		receive(t, b.starts)
		if s := receive(t, b.starts); s.Charges[0].Key != "b" || s.Waited {
			t.Errorf("the other tenant: %+v", s)
		}
		b.refill(tenantOf(filling(time.Second)), slow(100))
		for range 2 {
			if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || len(f.Charges) != 2 {
				t.Errorf("finish %+v", f)
			}
		}
		b.left("api", "", 70)
		if len(b.settlements) > 0 {
			t.Errorf("something was given back: %+v", receive(t, b.settlements))
		}
	})
}

func TestOutageInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(100)), slow(100))
		b.store.gone = "api"
		var out lockedBuffer
		w := b.worker(worker.Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		worker.Handle(w, okBoth)
		b.start(w)
		b.enqueue(both{Tenant: "a", Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		for range 2 {
			if d := receive(t, b.deferrals); d.Charge.Limit != "api" || !errors.Is(d.Err, reservations.ErrUnavailable) {
				t.Errorf("deferral %+v", d)
			}
			b.left("tenant", "a", 100)
		}
		b.store.set(func(s *faultStore) { s.gone = "" })
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 {
			t.Errorf("finish %+v", f)
		}
		b.left("tenant", "a", 90)
		b.left("api", "", 90)
		if began, ended := strings.Count(out.String(),
			"does not answer"), strings.Count(out.String(), "answers again"); began == 0 || ended == 0 {
			t.Errorf("the outage is not logged:\n%s", out.String())
		}
	})
}

func TestABucketTwiceIsArchived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(100)), slow(100))
		b.adopt(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
		b.send(asynq.NewTask("twice", nil), asynq.TaskID("t"))
		r := receive(t, b.refusals)
		if !errors.Is(r.Err, reservations.ErrInvalidCharge) || !errors.Is(r.Err, asynq.SkipRetry) {
			t.Errorf("refused %+v", r)
		}
		b.info("t", asynq.TaskStateArchived)
		if n := b.store.begins(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

func TestReservedWithTwoLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(100)), filling(time.Second))
		w := b.runBoth(okBoth)
		var args []tasks.Args
		for range 3 {
			args = append(args, both{Tenant: "a", Cost: 10})
		}
		if _, err := w.Scheduler().EnqueueMany(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if s := receive(t, b.starts); !s.Waited || s.Lateness != 0 {
				t.Errorf("start %+v", s)
			}
		}
		b.left("tenant", "a", 70)
	})
}

// A task that waits for its tenant's limit reserves nothing in the provider's.
func TestReservedWaitsForTheNarrowest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(10)), slow(100))
		w := b.runBoth(okBoth)
		args := []tasks.Args{both{Tenant: "a", Cost: 10}, both{Tenant: "a", Cost: 10}, both{Tenant: "b", Cost: 10}}
		infos, err := w.Scheduler().EnqueueMany(t.Context(), args)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if f := receive(t, b.finishes); f.Task.ID == infos[1].ID {
				t.Errorf("finish %+v", f)
			}
		}
		held, _, _ := bucket.Read(t.Context(), b.store, "api", "")
		if reserved := held.Meters[0].Reserved; reserved < 79.99 {
			t.Errorf("the provider's bucket has promised down to %v, want 80", reserved)
		}
		// If a later bucket can't be asked, the task waits for it, and the reservations in earlier ones are released.
		b.store.set(func(s *faultStore) { s.gone = "api" })
		if _, err = w.Scheduler().Enqueue(t.Context(), both{Tenant: "c", Cost: 10}); err != nil {
			t.Errorf("enqueue: %v", err)
		}
		held, _, _ = bucket.Read(t.Context(), b.store, "tenant", "c")
		if reserved := held.Meters[0].Reserved; reserved < 9.99 {
			t.Errorf("the tenant's bucket has promised down to %v, want 10", reserved)
		}
	})
}

func TestUsageSettlesBoth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		narrow := tenantOf(slow(100))
		narrow.Meters = append(narrow.Meters, reservations.Meter{Name: "calls", Rate: 1, Period: time.Hour, Capacity: 5})
		b := setup(t, narrow, slow(100))
		b.runBoth(func(_ context.Context, job *worker.Job[both]) error {
			job.Use(reservations.Tokens{"tokens": 3, "calls": 1, "words": 7})
			return nil
		})
		b.enqueue(both{Tenant: "a", Cost: 10, Calls: 1})
		for range 2 {
			switch s := receive(t, b.settlements); s.Charge.Bucket().String() {
			case "tenant:a":
				if s.Err != nil || len(s.Used) != 2 || s.Used["tokens"] != 3 || s.Used["calls"] != 1 {
					t.Errorf("the tenant: %+v", s)
				}
			case "api":
				if !errors.Is(s.Err, reservations.ErrUnknownMeter) || len(s.Used) != 2 || s.Used["tokens"] != 3 {
					t.Errorf("the provider: %+v", s)
				}
			}
		}
		b.left("tenant", "a", 97)
		b.left("api", "", 97)
	})
}

// A refusal by the provider blocks its bucket, not the tenant's, and the task is the first in both.
func TestRefusedUpstreamWithTwoLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(20)), slow(100))
		refusals := make(chan error, 1)
		refusals <- reservations.RetryAfter(time.Hour, errUpstream)
		w := b.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, job *worker.Job[both]) error {
			select {
			case err := <-refusals:
				job.Use(reservations.Tokens{"tokens": 0})
				return err
			default:
				return nil
			}
		})
		b.start(w)
		b.enqueue(both{Tenant: "a", Cost: 20}, tasks.Options{MaxRetry: tasks.NoRetry})
		if e := receive(t, b.blocks); e.Charge.Limit != "api" || e.Err != nil {
			t.Errorf("block %+v", e)
		}
		if held, _, _ := bucket.Read(t.Context(), b.store, "tenant", "a"); !held.Blocked.IsZero() {
			t.Errorf("the tenant is blocked until %v", held.Blocked)
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindRefused {
			t.Errorf("finish %+v", f)
		}
		receive(t, b.deferrals)
		b.enqueue(both{Tenant: "a", Cost: 1}) // must not take the tokens of the first one
		receive(t, b.deferrals)
		b.unblock(w)
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 ||
			f.Charges[0].Tokens["tokens"] != 20 {
			t.Errorf("finish %+v", f)
		}
	})
}

// The provider is not asked before the tenant's hold is over.
func TestHeldTaskIsGivenBackByTheTenantAtStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, tenantOf(slow(100)), slow(100))
		b.store.hold = time.Hour
		w := b.worker(worker.Config{})
		worker.Handle(w, okBoth)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(both{Tenant: "a", Cost: 10})
		eventually(t, "the task has begun", func() bool { return b.store.begins() == 1 })
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.left("tenant", "a", 100)
		turn, err := inside.Of(b.scheduler).Arrive(t.Context(), waitlist.Task{Queue: "default", ID: info.ID}, nil)
		if err != nil || turn.State == waitlist.StateNew || turn.Bucket != "tenant:a" {
			t.Errorf("the task waits as %+v, %v", turn, err)
		}
	})
}

// lockedBuffer is written to by loggers of many goroutines.
type lockedBuffer struct {
	mu  sync.Mutex // guards the buffer
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
