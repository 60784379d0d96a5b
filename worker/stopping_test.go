package worker_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func TestStopWaitsForSettlements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			b.store.set(func(s *faultStore) { s.down = true })
			job.Use(reservations.Tokens{"tokens": 1})
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(call{Cost: 10})
		receive(t, b.finishes)
		b.gone(info.ID)

		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err := w.Stop(short)
		if open := "1 settlements are open (tasks " + info.ID + ")"; !errors.Is(err, worker.ErrLeftBehind) ||
			!strings.Contains(err.Error(), open) || strings.Contains(err.Error(), "handlers") {
			t.Errorf("stop while the store is down: %v", err)
		}
		b.store.set(func(s *faultStore) { s.down = false })
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop again: %v", err)
		}
		if got := b.balance(); math.Abs(got-99) > 0.1 {
			t.Errorf("balance %v, want 99", got)
		}
	})
}

func TestHandlerThatIgnoresTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{ShutdownTimeout: 200 * time.Millisecond})
		release := make(chan struct{})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error {
			<-release
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		receive(t, b.starts)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := w.Stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "1 handlers still run (tasks "+info.ID+")") {
			t.Errorf("stop: %v", err)
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindAborted {
			t.Errorf("finish %+v", f)
		}
		if pending := b.info(info.ID, asynq.TaskStatePending); pending.Retried != 0 {
			t.Errorf("pending %+v", pending)
		}
		close(release)
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop once it has ended: %v", err)
		}

		b.run(ok) // another worker runs it
		if f := receive(t, b.finishes); f.Task.ID != info.ID || f.Kind != worker.KindSucceeded {
			t.Errorf("finish %+v", f)
		}
	})
}

// The caller of Stop must not close the client then.
func TestStopWithoutTimeMatchesErrLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Stop(ended); err != nil && !errors.Is(err, worker.ErrLeftBehind) { // nil if the server was faster
			t.Errorf("stop: %v", err)
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop again: %v", err)
		}
	})
}

func TestStopLetsHandlersFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		release := make(chan struct{})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error {
			<-release
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.enqueue(call{Cost: 10})
		receive(t, b.starts)
		stopped := make(chan error, 1)
		go func() { stopped <- w.Stop(t.Context()) }()
		close(release)
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded {
			t.Errorf("finish %+v", f)
		}
	})
}

func TestHeldTaskIsGivenBackAtStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.hold = time.Hour
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		eventually(t, "the task has begun", func() bool { return b.store.begins() == 1 })
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := receive(t, b.settlements); s.Err != nil || s.Used["tokens"] != 0 {
			t.Errorf("settlement %+v", s)
		}
		if got := b.balance(); math.Abs(got-100) > 0.1 {
			t.Errorf("balance %v, want 100", got)
		}
		if d := receive(t, b.deferrals); !errors.Is(d.Err, dispatcher.ErrDeferred) {
			t.Errorf("deferral %+v", d)
		}
		turn, err := inside.Of(b.scheduler).Arrive(t.Context(), waitlist.Task{Queue: "default", ID: info.ID}, nil)
		// promoted before the worker stopped, or not
		if err != nil || turn.State == waitlist.StateNew || len(b.starts) != 0 {
			t.Errorf("after the stop: %+v, %v", turn, err)
		}
		if waits, err := b.inspector.GetTaskInfo("default", info.ID); err != nil || waits.Retried != 0 {
			t.Errorf("after the stop: %+v, %v", waits, err)
		}
		b.store.set(func(s *faultStore) { s.hold = 0 })
		b.run(ok)
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 {
			t.Errorf("finish %+v", f)
		}
	})
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		if err := w.Start(t.Context()); !errors.Is(err, worker.ErrNoHandlers) {
			t.Errorf("start without handlers: %v", err)
		}
		for range 2 {
			if err := w.Stop(t.Context()); err != nil {
				t.Errorf("stop without start: %v", err)
			}
		}
		worker.Handle(w, ok)
		if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "started before") {
			t.Errorf("start after stop: %v", err)
		}

		w = b.worker(worker.Config{})
		worker.Handle(w, ok)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		b.enqueue(call{Cost: 1})
		receive(t, b.finishes)
		if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "started before") {
			t.Errorf("start twice: %v", err)
		}
		cancel()
		if err := receive(t, ran); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestRedisGoneWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, wire, _ := cuttable(t)
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			wire.Set(network.Refuse)
			job.Use(reservations.Tokens{"tokens": 1})
			return nil
		})
		info := b.enqueue(call{Cost: 10})
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded {
			t.Errorf("finish %+v", f)
		}
		if s := receive(t, b.settlements); s.Err != nil {
			t.Errorf("settlement while Redis is down: %+v", s)
		}
		wire.Set(network.Up)
		b.gone(info.ID) // asynq writes it to Redis later
		if got := b.balance(); math.Abs(got-99) > 0.1 || len(b.starts) != 1 {
			t.Errorf("balance %v after %d starts, want 99 after one", got, len(b.starts))
		}
	})
}

// A worker takes several tasks of a long queue at once. Tasks that it has not begun when it stops are pending again.
func TestStopLeavesNoTaskTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		const all = 300
		for i := range all {
			b.enqueue(free{N: i})
		}
		several := make(chan struct{})
		begun := sync.OnceFunc(func() { close(several) })
		var n atomic.Int64
		w := b.worker(worker.Config{Concurrency: 40})
		worker.Handle(w, func(context.Context, *worker.Job[free]) error {
			if n.Add(1) > 40 { // by then tasks are taken together
				begun()
			}
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-several
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := b.inspector.GetQueueInfo("default")
		if err != nil || info.Active != 0 || info.Pending+len(b.finishes) != all {
			t.Errorf("%+v, %v: want no active task, and pending those that did not finish (%d did)", info, err, len(b.finishes))
		}
	})
}
