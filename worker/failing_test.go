package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

var errUpstream = errors.New("upstream is ill")

func TestFailingTaskHasExactlyItsRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.refuse = 1
		b.run(func(context.Context, *worker.Job[call]) error { return errUpstream })
		info := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: 2})
		for attempt := 1; attempt <= 3; attempt++ {
			f := receive(t, b.finishes)
			want := worker.KindFailed
			if attempt == 3 {
				want = worker.KindArchived
			}
			if f.Kind != want || f.Task.Attempt != attempt || !errors.Is(f.Err, errUpstream) {
				t.Fatalf("attempt %d: %+v", attempt, f)
			}
			if attempt < 3 {
				b.hurry(info.ID)
			}
		}
		if archived := b.info(info.ID, asynq.TaskStateArchived); archived.LastErr != errUpstream.Error() ||
			archived.Retried != 2 {
			t.Errorf("archived %+v", archived)
		}
		if got := b.balance(); math.Abs(got-70) > 0.1 {
			t.Errorf("balance %v after three attempts of 10, want 70", got)
		}
	})
}

func TestPermanentFailureIsArchivedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"tokens": 4})
			return tasks.Permanent(errUpstream)
		})
		info := b.enqueue(call{Cost: 10})
		b.info(info.ID, asynq.TaskStateArchived)
		receive(t, b.settlements)
		if got := b.balance(); math.Abs(got-96) > 0.1 {
			t.Errorf("balance %v, want 96", got)
		}
	})
}

func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		var log bytes.Buffer
		w := b.worker(worker.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { panic(errUpstream) })
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: 1})
		f := receive(t, b.finishes)
		var p *worker.PanicError
		if f.Kind != worker.KindFailed || !errors.Is(f.Err, errUpstream) || !errors.As(f.Err, &p) {
			t.Errorf("finish %+v", f)
		}
		if retry := b.info(info.ID, asynq.TaskStateRetry); retry.Retried != 1 ||
			retry.LastErr != "handler panicked: upstream is ill" {
			t.Errorf("asynq shows %+v", retry)
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "TestPanicIsAFailure"); n == 0 || strings.Count(log.String(), "stack=") != 1 {
			t.Errorf("the stack must be logged once:\n%s", log.String())
		}
		if got := b.balance(); math.Abs(got-90) > 0.1 {
			t.Errorf("balance %v, want 90: the estimate stays", got)
		}
	})
}

func TestHandlerThatIgnoresItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		release := make(chan struct{})
		b.run(func(ctx context.Context, job *worker.Job[call]) error {
			<-ctx.Done()
			<-release
			job.Use(reservations.Tokens{"tokens": 3})
			return nil
		})
		id := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry, Timeout: 4 * time.Second}).ID
		b.info(id, asynq.TaskStateArchived)
		f := receive(t, b.finishes)
		if f.Kind != worker.KindArchived || !errors.Is(f.Err, context.DeadlineExceeded) ||
			!strings.Contains(f.Err.Error(), "left running after 3.9s") {
			t.Errorf("finish %+v", f)
		}
		close(release)
		if s := receive(t, b.settlements); s.Err != nil || s.Used["tokens"] != 3 {
			t.Errorf("settlement %+v", s)
		}
		if got := b.balance(); math.Abs(got-97) > 0.1 {
			t.Errorf("balance %v, want 97", got)
		}
	})
}

func TestHandlerThatHeedsItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(ctx context.Context, _ *worker.Job[call]) error {
			<-ctx.Done()
			return errors.Join(errUpstream, ctx.Err())
		})
		id := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry, Timeout: 4 * time.Second}).ID
		b.info(id, asynq.TaskStateArchived)
		// The handler's own error counts.
		if f := receive(t, b.finishes); f.Kind != worker.KindArchived || !errors.Is(f.Err, context.DeadlineExceeded) ||
			!errors.Is(f.Err, errUpstream) {
			t.Errorf("finish %+v", f)
		}
	})
}

func TestSettlementThatCannotBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"bananas": 3})
			return nil
		})
		b.enqueue(call{Cost: 10})
		if s := receive(t, b.settlements); !errors.Is(s.Err, reservations.ErrUnknownMeter) {
			t.Errorf("settlement %+v", s)
		}
		if got := b.balance(); math.Abs(got-90) > 0.1 {
			t.Errorf("balance %v, want 90: the estimate stays", got)
		}
	})
}
