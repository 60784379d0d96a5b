package reservations_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// gatedStore lets one call through for each value sent to gate, and keeps what was asked in each call: the tokens of its requests.
type gatedStore struct {
	reservations.Store

	gate chan struct{}

	mu    sync.Mutex // guards calls
	calls [][]float64
}

func (s *gatedStore) Apply(ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	var tokens []float64
	for _, r := range requests {
		tokens = append(tokens, r.Tokens[0])
	}
	s.mu.Lock()
	s.calls = append(s.calls, tokens)
	s.mu.Unlock()
	select {
	case <-s.gate:
		return s.Store.Apply(ctx, limit, key, requests)
	case <-ctx.Done():
		return nil, &reservations.UnavailableError{Bucket: limit.Name, Applied: reservations.AppliedMaybe, Err: ctx.Err()}
	}
}

type combineBundle struct {
	*reservations.Limiter

	t     *testing.T
	store *gatedStore
	wg    sync.WaitGroup
}

// setupCombine is called in a synctest bubble, whose clock is the store's.
func setupCombine(t *testing.T) *combineBundle {
	t.Helper()
	b := &combineBundle{t: t, store: &gatedStore{Store: memstore.New(nil), gate: make(chan struct{})}}
	var err error
	if b.Limiter, err = reservations.New(b.store, []reservations.Limit{steady()}, reservations.Config{CallTimeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	return b
}

// ask begins in the background and returns once the request stands where it has to; the answer is checked by checkAnswer.
func (b *combineBundle) ask(ctx context.Context, key string, tokens float64, checkAnswer func(reservations.Outcome, error)) {
	b.askWith(ctx, key, tokens, reservations.Place{}, checkAnswer)
}

func (b *combineBundle) askWith(ctx context.Context, key string, tokens float64, with reservations.Place, checkAnswer func(reservations.Outcome, error)) {
	b.wg.Go(func() {
		c := chargeOf("steady", tokens)
		c.Key = key
		checkAnswer(b.Begin(ctx, c, with))
	})
	synctest.Wait()
}

// Tasks that were woken together come in any order. They are asked for in that of their times, between others that stay where they are.
func TestCombineAsksInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		started := func(_ reservations.Outcome, err error) {
			if err != nil {
				t.Error(err)
			}
		}
		b.ask(t.Context(), "k", 1, started) // is under way
		for _, p := range []struct {
			tokens float64
			due    int
		}{{4, 40}, {9, 0}, {2, 20}, {3, 30}, {8, 0}} {
			place := reservations.Place{}
			if p.due > 0 {
				place = reservations.Place{State: reservations.StateReserved, Due: time.Now().Add(time.Duration(p.due) * time.Millisecond)}
			}
			b.askWith(t.Context(), "k", p.tokens, place, started)
		}
		b.store.gate <- struct{}{}
		synctest.Wait()
		b.store.gate <- struct{}{}
		b.wg.Wait()
		if d := cmp.Diff([][]float64{{1}, {2, 9, 3, 4, 8}}, b.store.calls); d != "" {
			t.Errorf("asked (-want +got):\n%s", d)
		}
	})
}

// open lets n calls through and waits for what they bring about.
func (b *combineBundle) open(n int) {
	for range n {
		b.store.gate <- struct{}{}
		synctest.Wait()
	}
}

// waits checks that a task was told to wait so long, or for 0 was started.
func (b *combineBundle) waits(want time.Duration) func(reservations.Outcome, error) {
	return func(o reservations.Outcome, err error) {
		if err != nil || o.Started() != (want == 0) || (o.Wait()-want).Abs() > time.Microsecond {
			b.t.Errorf("%+v, %v: want a wait of %v", o, err, want)
		}
	}
}

func (b *combineBundle) canceled(_ reservations.Outcome, err error) {
	var u *reservations.UnavailableError
	if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.Canceled) || !errors.As(err, &u) || u.Applied != reservations.AppliedMaybe {
		b.t.Errorf("%v: want unavailable because canceled", err)
	}
}

func (b *combineBundle) wantCalls(want ...[]float64) {
	b.t.Helper()
	b.wg.Wait()
	if diff := cmp.Diff(want, b.store.calls); diff != "" {
		b.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Requests that arrive while a call is under way share the next one, in the order in which they came.
func TestCombineSharesTheNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(t.Context(), "", 5, b.waits(500*time.Millisecond))
		b.ask(t.Context(), "", 6, b.waits(1100*time.Millisecond))
		b.ask(t.Context(), "", 7, b.waits(1800*time.Millisecond))
		b.open(1)
		b.ask(t.Context(), "", 8, b.waits(2600*time.Millisecond))
		b.open(2)
		b.ask(t.Context(), "", 9, b.waits(3500*time.Millisecond)) // alone again
		b.open(1)
		b.wantCalls([]float64{10}, []float64{5, 6, 7}, []float64{8}, []float64{9})
	})
}

// After a call with several, the next one waits for as many, at most as long as that one took, and 5 ms.
func TestCombineGathersAfterASharedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		after := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		answered := func(_ reservations.Outcome, err error) {
			if err != nil {
				t.Error(err)
			}
		}
		b.ask(t.Context(), "", 1, answered)
		b.ask(t.Context(), "", 2, answered)
		b.ask(t.Context(), "", 3, answered)
		b.open(1)
		after(3 * time.Millisecond)
		b.open(1) // 2 and 3
		b.ask(t.Context(), "", .1, answered)
		b.ask(t.Context(), "", .2, answered)
		after(time.Second)
		b.open(1) // both
		b.ask(t.Context(), "", .3, answered)
		after(4 * time.Millisecond)
		b.ask(t.Context(), "", .4, answered)
		after(time.Second)
		b.open(1) // both
		b.ask(t.Context(), "", .5, answered)
		after(5 * time.Millisecond)
		b.ask(t.Context(), "", .6, answered)
		b.open(2) // one, and one
		b.wantCalls([]float64{1}, []float64{2, 3}, []float64{.1, .2}, []float64{.3, .4}, []float64{.5}, []float64{.6})
	})
}

func TestCombineBucketsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		b.ask(t.Context(), "a", 1, b.waits(0))
		b.ask(t.Context(), "b", 2, b.waits(0))
		b.open(2)
		b.wantCalls([]float64{1}, []float64{2})
	})
}

func TestCombineSplitsLongQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		b.ask(t.Context(), "", 1, b.waits(0))
		want := [][]float64{{1}, nil, nil}
		for i := range 130 {
			b.ask(t.Context(), "", 0, b.waits(0))
			want[1+i/128] = append(want[1+i/128], 0)
		}
		b.open(3)
		b.wantCalls(want...)
	})
}

// Who gives up while waiting for the call is not asked for, and nobody else notices.
func TestCombineCanceledBeforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(ctx, "", 1, b.canceled)
		b.ask(t.Context(), "", 5, b.waits(500*time.Millisecond))
		b.ask(ctx, "", 1, b.canceled)
		b.ask(t.Context(), "", 6, b.waits(1100*time.Millisecond))
		cancel()
		synctest.Wait()
		b.open(2)
		b.wantCalls([]float64{10}, []float64{5, 6})
	})
}

// Who gives up during the call does not end it: the others in it get their answers.
func TestCombineCanceledDuringTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(ctx, "", 1, b.canceled)
		b.ask(t.Context(), "", 5, b.waits(600*time.Millisecond)) // the first one's token is gone
		b.open(1)
		cancel()
		synctest.Wait()
		b.open(1)
		b.wantCalls([]float64{10}, []float64{1, 5})
	})
}

func TestCombineAllGaveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(ctx, "", 1, b.canceled)
		cancel()
		synctest.Wait()
		b.open(1)
		b.ask(t.Context(), "", 5, b.waits(500*time.Millisecond))
		b.open(1)
		b.wantCalls([]float64{10}, []float64{5})
	})
}

// An error of the store reaches everybody who shared the call, and the next call is made all the same.
func TestCombineTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		start := time.Now()
		timeout := func(after time.Duration) func(reservations.Outcome, error) {
			return func(_ reservations.Outcome, err error) {
				if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != after {
					t.Errorf("%v after %v, want a timeout after %v", err, time.Since(start), after)
				}
			}
		}
		b.ask(t.Context(), "", 1, timeout(time.Minute))
		b.ask(t.Context(), "", 2, timeout(2*time.Minute))
		b.ask(t.Context(), "", 3, timeout(2*time.Minute))
		b.wantCalls([]float64{1}, []float64{2, 3})
		b.ask(t.Context(), "", 4, b.waits(0))
		b.open(1)
		b.wantCalls([]float64{1}, []float64{2, 3}, []float64{4})
	})
}

type tracing struct{}

// The call to the store carries the values of the first caller's context, and a deadline of its own.
func TestCombineContext(t *testing.T) {
	t.Parallel()
	seen := make(chan context.Context, 1)
	l, err := reservations.New(contextStore{seen: seen}, []reservations.Limit{steady()}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), tracing{}, "trace")
	if _, err := l.Begin(ctx, chargeOf("steady", 1), reservations.Place{}); err != nil {
		t.Fatal(err)
	}
	got := <-seen
	deadline, ok := got.Deadline()
	if got.Value(tracing{}) != "trace" || !ok || time.Until(deadline) > reservations.CallTimeoutDefault {
		t.Errorf("value %v, deadline %v", got.Value(tracing{}), deadline)
	}
}

// contextStore shows the context of a call.
type contextStore struct {
	reservations.Store

	seen chan context.Context
}

func (s contextStore) Apply(ctx context.Context, _ reservations.Limit, _ string, requests []reservations.Request) ([]reservations.Outcome, error) {
	s.seen <- ctx
	return make([]reservations.Outcome, len(requests)), nil
}

func (contextStore) Reset(context.Context, reservations.Limit, string) error { return nil }
