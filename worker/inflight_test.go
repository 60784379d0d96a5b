package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// inFlight returns a limit of tokens and of calls in flight.
func inFlight(calls int) reservations.Limit {
	l := slow(1000)
	l.Meters = append(l.Meters, reservations.InFlight(calls))
	return l
}

// slots returns the number of free slots.
func (b *bundle) slots() float64 {
	b.t.Helper()
	v, err := b.limiter.View(b.t.Context(), "api", "")
	if err != nil {
		b.t.Fatal(err)
	}
	return v.Meters[1].Level
}

// Waiting tasks start when earlier calls end, whatever these return, and each delivery starts a task.
func TestCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all, most = 20, 3
		b := setup(t, inFlight(most))
		var running, peak atomic.Int64
		ends := make(chan error)
		b.run(func(_ context.Context, _ *worker.Job[call]) error {
			n := running.Add(1)
			defer running.Add(-1)
			for was := peak.Load(); n > was && !peak.CompareAndSwap(was, n); was = peak.Load() {
			}
			return <-ends
		})
		for range all {
			b.enqueue(call{Cost: 1}, tasks.Options{MaxRetry: tasks.NoRetry})
		}
		for i := range all {
			if running := min(most, all-i); i == 0 {
				for range running {
					receive(t, b.starts)
				}
			}
			ends <- []error{nil, errors.New("fails")}[i%2]
			receive(t, b.finishes)
			if i+most < all {
				receive(t, b.starts)
			}
		}
		if n := peak.Load(); n != most {
			t.Errorf("%d calls ran at once, want %d", n, most)
		}
		if n := len(b.deferrals); n > all-most {
			t.Errorf("%d tasks were sent back %d times", all, n)
		}
		eventually(t, "all slots are back", func() bool { return b.slots() == most })
	})
}

// A call with a lost lease ends, and its task runs again with no retry used.
func TestLostLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, inFlight(1))
		runs, again := make(chan worker.Job[call], 2), make(chan struct{})
		b.run(func(ctx context.Context, job *worker.Job[call]) error {
			runs <- *job
			select {
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), reservations.ErrLeaseLost) {
					t.Errorf("the context ended: %v", context.Cause(ctx))
				}
				return ctx.Err()
			case <-again:
				return nil
			}
		})
		info := b.enqueue(call{Cost: 1}, tasks.Options{MaxRetry: tasks.NoRetry})
		receive(t, runs)
		if err := b.limiter.Reset(t.Context(), "api", ""); err != nil {
			t.Fatal(err)
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindAborted || !errors.Is(f.Err, reservations.ErrLeaseLost) {
			t.Errorf("finish %+v", f)
		}
		if job := receive(t, runs); job.ID != info.ID || job.Attempt != 1 {
			t.Errorf("job %+v", job)
		}
		close(again)
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded {
			t.Errorf("finish %+v", f)
		}
	})
}

// Lower lowers tokens, and the call keeps its slot.
func TestLowerKeepsTheSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, inFlight(2))
		expected, end := make(chan struct{}), make(chan struct{})
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			job.Lower(reservations.Tokens{"tokens": 2, "in_flight": 0})
			close(expected)
			<-end
			return nil
		})
		info := b.enqueue(call{Cost: 10})
		<-expected
		receive(t, b.settlements)
		if got := b.slots(); got != 1 || b.balance() < 997 {
			t.Errorf("%v slots and %v tokens are left", got, b.balance())
		}
		close(end)
		b.gone(info.ID)
		eventually(t, "all slots are back", func() bool { return b.slots() == 2 })
	})
}
