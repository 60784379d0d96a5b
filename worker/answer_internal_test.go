package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

// alone is a guard for tasks without a charge.
func alone(finished chan<- Event) *guard {
	own, open := journal{log: slog.New(slog.DiscardHandler), events: []func(Event){func(e Event) {
		if e.Ended() {
			finished <- e
		}
	}}}, &pending{}
	settler := &settler{journal: own, pending: open}
	return &guard{
		journal: own, stopping: context.Background(), pending: open,
		charges: func(*asynq.Task) ([]reservations.Charge, error) { return nil, nil },
		settler: settler, refusals: &refusals{settler: settler}, records: &records{},
	}
}

func runs(handle prepared) func(*delivery) (prepared, error) {
	return func(*delivery) (prepared, error) { return handle, nil }
}

// asynq gets its answer in time, once, even from a handler that ignores its context. The late result is ignored.
func TestHandlerThatGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		cancel bool // asynq cancels the task
		late   bool // the handler has not started
		after  time.Duration
		result Kind
	}{
		{name: "timeout", after: 20*time.Second - time.Second/2, result: KindFailed},
		{name: "taken back", cancel: true, after: 5 * time.Second, result: KindAborted},
		{name: "taken back before the start", cancel: true, late: true, after: 5 * time.Second, result: KindAborted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				finished := make(chan Event, 2)
				g := alone(finished)
				release := make(chan struct{})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if c.cancel {
					time.AfterFunc(5*time.Second, cancel)
				}
				prepare := func(d *delivery) (prepared, error) {
					d.allowed, d.maxRetry = 5, 5
					if c.late {
						<-time.After(5 * time.Second)
						<-ctx.Done()
					}
					return func(context.Context) error {
						<-release
						return nil
					}, nil
				}
				began := time.Now()
				err := g.process(ctx, asynq.NewTask("any", nil), prepare)
				timeout := errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "left running")
				if time.Since(began) != c.after || timeout == c.cancel ||
					c.cancel && !errors.Is(err, context.Canceled) {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				if left := g.pending.late(t.Context()); left == nil || !strings.Contains(left.Error(), ": 1 handlers still run") {
					t.Errorf("left: %v", left)
				}
				close(release)
				synctest.Wait()
				if f := <-finished; f.Kind != c.result || len(finished) != 0 || g.pending.late(t.Context()) != nil {
					t.Errorf("%+v, and %d more", f, len(finished))
				}
			})
		})
	}
}

// wordless is an error type whose Error panics on a nil pointer. A handler may return such a pointer as a non-nil
// error.
type wordless struct{ text string }

func (w *wordless) Error() string { return w.text }

// Whatever happens to the goroutine, asynq gets an answer.
func TestDeliveryThatEndsWithoutAResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finished := make(chan Event, 3)
		g := alone(finished)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := g.process(ctx, asynq.NewTask("any", nil), runs(func(context.Context) error {
			runtime.Goexit()
			return nil
		}))
		if f := <-finished; !errors.Is(err, errNoAnswer) || !errors.Is(f.Err, errNoAnswer) {
			t.Errorf("a handler that ended its goroutine: %v, finished %+v", err, f)
		}
		err = g.process(ctx, asynq.NewTask("any", nil), runs(func(context.Context) error { return (*wordless)(nil) }))
		if _, ok := errors.AsType[*PanicError](err); !ok {
			t.Errorf("an error whose text panics: %v", err)
		}
		<-finished
		g.dispatcher = nil // which the refusal of a task needs
		err = g.process(ctx, asynq.NewTask("any", nil), func(*delivery) (prepared, error) { return nil, errors.New("bad") })
		if p, ok := errors.AsType[*PanicError](err); !ok || p.Stack == "" {
			t.Errorf("a panic of ours: %v", err)
		}
		if err = g.process(ctx, asynq.NewTask("any", nil),
			runs(func(context.Context) error { return nil })); err != nil || time.Since(began) > 0 {
			t.Errorf("the next one: %v, after %v", err, time.Since(began))
		}
	})
}
