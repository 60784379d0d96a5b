package worker_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func ok(context.Context, *worker.Job[call]) error { return nil }

func TestWaitingUsesNoRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		const refusals = 30 // more than asynq has retries for the task
		b.store.refuse = refusals
		jobs := make(chan worker.Job[call], 1)
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			jobs <- *job
			return nil
		})
		info := b.enqueue(call{Cost: 1}, tasks.Options{MaxRetry: 3, Retention: time.Minute})
		job := receive(t, jobs)
		if job.ID != info.ID || job.Attempt != 1 || job.MaxRetry != 3 || job.Queue != "default" ||
			job.Charges[0].Limit != "api" {
			t.Errorf("job after %d waits: %+v", refusals, job)
		}
		if done := b.info(info.ID, asynq.TaskStateCompleted); done.Retried != 0 {
			t.Errorf("retried %d times", done.Retried)
		}
		if n := len(b.deferrals); n != refusals {
			t.Errorf("deferred %d times, want %d", n, refusals)
		}
		if s := receive(t, b.starts); !s.Waited || !s.Outcome.Started() {
			t.Errorf("start %+v", s)
		}
	})
}

func TestWaitingOnTheOnlyAttemptIsNotArchived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.refuse = 2
		b.run(ok)
		info := b.enqueue(call{Cost: 1}, tasks.Options{MaxRetry: tasks.NoRetry})
		d := receive(t, b.deferrals)
		if !errors.Is(d.Err, dispatcher.ErrDeferred) || d.Outcome.State != bucket.StateReserved || d.Until.IsZero() {
			t.Errorf("deferral %+v", d)
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.ID != info.ID {
			t.Errorf("finish %+v", f)
		}
		b.gone(info.ID)
	})
}

// A task that would start long after its grant would meet tasks of later grants. It asks again, and gives its first
// tokens back.
func TestAdmittedTooLongAgo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.late()
		before := b.store.begins()
		b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 || len(b.deferrals) != 0 {
			t.Errorf("finish %+v, sent back %d times", f, len(b.deferrals))
		}
		s := receive(t, b.starts)
		asked := b.store.begins() - before
		if asked != 2 || s.Waited {
			t.Errorf("start %+v after %d requests, want two", s, asked)
		}
		if left, want := b.balance(), 100-float64(before)-10; math.Abs(left-want) > 0.1 {
			t.Errorf("%v of 100 tokens are left, want %v", left, want)
		}
	})
}

// late runs a worker that has started one task, so that it has measured a start. The next answer of the store then
// takes longer than a start may be late.
func (b *bundle) late() {
	b.t.Helper()
	w := b.worker(worker.Config{})
	worker.Handle(w, ok)
	b.start(w)
	b.enqueue(call{Cost: 1})
	receive(b.t, b.starts)
	receive(b.t, b.finishes)
	b.store.set(func(s *faultStore) { s.stall = 300 * time.Millisecond })
}

func TestStoreDownStartsNothingLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.down = true
		w := b.worker(worker.Config{Concurrency: 4})
		worker.Handle(w, ok)
		worker.Handle(w, func(context.Context, *worker.Job[free]) error { return nil })
		b.start(w)
		const n = 8
		for i := range n {
			b.enqueue(call{N: i, Cost: 1}, tasks.Options{MaxRetry: tasks.NoRetry})
		}
		for range n {
			if d := receive(t, b.deferrals); !errors.Is(d.Err, reservations.ErrUnavailable) {
				t.Errorf("deferral %+v", d)
			}
		}
		b.enqueue(free{})
		if f := receive(t, b.finishes); f.Task.Type != "free" || f.Kind != worker.KindSucceeded {
			t.Errorf("first to finish: %+v", f)
		}
		b.store.set(func(s *faultStore) { s.down = false })
		for range n {
			if f := receive(t, b.finishes); f.Task.Type != "call" || f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 {
				t.Errorf("finish %+v", f)
			}
		}
	})
}

func TestSlowStoreUsesNoRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		blocked := make(chan struct{})
		b.store.blocked = blocked
		defer close(blocked)
		b.run(ok)
		info := b.enqueue(call{Cost: 1}, tasks.Options{MaxRetry: tasks.NoRetry, Timeout: 4 * time.Second})
		if waits := b.info(info.ID, asynq.TaskStateRetry); waits.Retried != 0 {
			t.Errorf("asynq shows %+v", waits)
		}
		if d := receive(t, b.deferrals); !errors.Is(d.Err, reservations.ErrUnavailable) || !d.Outcome.At.IsZero() {
			t.Errorf("deferral %+v", d)
		}
		b.store.set(func(s *faultStore) { s.blocked = nil })
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 {
			t.Errorf("finish %+v", f)
		}
	})
}

func TestUsageSettlesAndWaitingTasksStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{
			{Name: "tokens", Rate: 10, Period: time.Hour, Capacity: 10},
		}}
		b := setup(t, limit)
		waits := make(chan struct{})
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			if job.Args.N == 1 {
				<-waits
				job.Use(reservations.Tokens{"tokens": 7})
				job.Use(reservations.Tokens{"tokens": 0}) // replaces the first report
			}
			return nil
		})
		b.enqueue(call{N: 1, Cost: 10})
		receive(t, b.starts)
		second := b.enqueue(call{N: 2, Cost: 10})
		if d := receive(t, b.deferrals); d.Task.ID != second.ID || (time.Until(d.Until)-time.Hour).Abs() > time.Second {
			t.Errorf("deferral %+v", d)
		}
		close(waits)
		if s := receive(t, b.settlements); s.Err != nil || s.Used["tokens"] != 0 || s.Outcome.Bucket.Meters[0].Started < 9 {
			t.Errorf("settlement %+v", s)
		}
		s := receive(t, b.starts)
		if s.Task.ID != second.ID || !s.Waited || s.Lateness != 0 {
			t.Errorf("start %+v", s)
		}
	})
}

func TestNeverStartsWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := slow(10)
		limit.Meters[0].MaxReserved = reservations.None
		b := setup(t, limit)
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		b.start(w)
		raw := asynq.NewClientFromRedisClient(b.client)
		tests := []struct {
			name string
			send func() (*asynq.TaskInfo, error)
			want error
		}{
			{
				"payload", func() (*asynq.TaskInfo, error) { return raw.Enqueue(asynq.NewTask("call", []byte(`{"n":`))) },
				tasks.ErrBadPayload,
			},
			{
				"charge", func() (*asynq.TaskInfo, error) { return b.scheduler.Enqueue(t.Context(), call{Cost: 11}) },
				reservations.ErrChargeTooLarge,
			},
		}
		for _, test := range tests {
			info, err := test.send()
			if err != nil {
				t.Fatal(err)
			}
			refused := receive(t, b.refusals)
			if refused.Task.ID != info.ID || !errors.Is(refused.Err, test.want) {
				t.Errorf("%s: refused %+v, want %v", test.name, refused, test.want)
			}
			if archived := b.info(info.ID, asynq.TaskStateArchived); archived.LastErr != refused.Err.Error() {
				t.Errorf("%s: asynq shows %q", test.name, archived.LastErr)
			}
		}
		if n := b.store.begins(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}
