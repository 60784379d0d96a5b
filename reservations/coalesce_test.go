package reservations_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// gatedStore lets one call through for each value sent to gate, and keeps the tokens of each call's requests.
type gatedStore struct {
	reservations.Store

	gate chan struct{}

	mu    sync.Mutex // guards calls
	calls [][]float64
}

func (s *gatedStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *gatedStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	var tokens []float64
	for _, r := range requests {
		tokens = append(tokens, r.Tokens[0])
	}
	s.mu.Lock()
	s.calls = append(s.calls, tokens)
	s.mu.Unlock()
	select {
	case <-s.gate:
		return bucket.Apply(ctx, s.Store, limit, key, requests)
	case <-ctx.Done():
		return nil, &bucket.UnavailableError{Bucket: limit.Name, Applied: bucket.AppliedMaybe, Err: ctx.Err()}
	}
}

type coalesceBundle struct {
	*reservations.Limiter

	t     *testing.T
	store *gatedStore
	wg    sync.WaitGroup
}

// setupCoalesce is called in a synctest bubble, whose clock is the store's.
func setupCoalesce(t *testing.T) *coalesceBundle {
	t.Helper()
	b := &coalesceBundle{t: t, store: &gatedStore{Store: memstore.New(), gate: make(chan struct{})}}
	var err error
	b.Limiter, err = reservations.New(b.store, []reservations.Limit{steady()},
		reservations.Config{CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ask starts a new task in the background and returns once its request waits where it has to.
func (b *coalesceBundle) ask(
	ctx context.Context, key string, tokens float64, check func(reservations.Outcome, error),
) {
	b.wg.Go(func() {
		c := chargeOf("steady", tokens)
		c.Key = key
		check(b.Ask(ctx, c))
	})
	synctest.Wait()
}

// open lets n calls through.
func (b *coalesceBundle) open(n int) {
	for range n {
		b.store.gate <- struct{}{}
		synctest.Wait()
	}
}

// waits checks that a task is to wait so long, or for 0 starts.
func (b *coalesceBundle) waits(want time.Duration) func(reservations.Outcome, error) {
	return func(o reservations.Outcome, err error) {
		if err != nil || o.Started() != (want == 0) || (o.Wait()-want).Abs() > time.Microsecond {
			b.t.Errorf("%+v, %v: want a wait of %v", o, err, want)
		}
	}
}

func (b *coalesceBundle) canceled(_ reservations.Outcome, err error) {
	var u *bucket.UnavailableError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &u) || u.Applied != bucket.AppliedMaybe ||
		u.Bucket != "steady" {
		b.t.Errorf("%v: want unavailable because canceled", err)
	}
}

func (b *coalesceBundle) wantCalls(want ...[]float64) {
	b.t.Helper()
	b.wg.Wait()
	if diff := cmp.Diff(want, b.store.calls); diff != "" {
		b.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Requests that arrive while a call is under way share the next one, in their order.
func TestLimiterSharesCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCoalesce(t)
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(t.Context(), "", 5, b.waits(500*time.Millisecond))
		b.ask(t.Context(), "", 6, b.waits(1100*time.Millisecond))
		b.ask(t.Context(), "", 7, b.waits(1800*time.Millisecond))
		b.ask(t.Context(), "other", 9, b.waits(0)) // another bucket does not wait
		b.open(3)
		b.ask(t.Context(), "", 9, b.waits(2700*time.Millisecond)) // alone again
		b.open(1)
		b.wantCalls([]float64{10}, []float64{9}, []float64{5, 6, 7}, []float64{9})
	})
}

// A caller that gives up does not end the call of the others. Before the call its request is not sent.
func TestLimiterCallersGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCoalesce(t)
		before, cancelBefore := context.WithCancel(t.Context())
		during, cancelDuring := context.WithCancel(t.Context())
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(before, "", 2, b.canceled)
		b.ask(during, "", 1, b.canceled)
		b.ask(t.Context(), "", 5, b.waits(600*time.Millisecond)) // behind the one that gives up later
		cancelBefore()
		b.open(1)
		cancelDuring()
		synctest.Wait()
		b.open(1)
		b.wantCalls([]float64{10}, []float64{1, 5})
	})
}

// A call that takes too long fails for all that share it, and the next one is made all the same.
func TestLimiterCallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCoalesce(t)
		start := time.Now()
		timeout := func(after time.Duration) func(reservations.Outcome, error) {
			return func(_ reservations.Outcome, err error) {
				took := time.Since(start)
				if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || took != after {
					t.Errorf("%v after %v, want a timeout after %v", err, took, after)
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

// silentStore does not answer a reset.
type silentStore struct{ reservations.Store }

func (silentStore) Reset(ctx context.Context, limit, key string) error {
	<-ctx.Done()
	return &bucket.UnavailableError{Bucket: bucket.Name(limit, key), Applied: bucket.AppliedMaybe, Err: ctx.Err()}
}

// CallTimeout bounds a reset as every other call.
func TestResetTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := reservations.Config{CallTimeout: time.Minute}
		l, err := reservations.New(silentStore{}, []reservations.Limit{steady()}, config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err = l.Reset(ctx, "steady", "")
		if took := time.Since(began); !errors.Is(err, reservations.ErrUnavailable) || took != time.Minute {
			t.Errorf("%v after %v, want a timeout after a minute", err, took)
		}
	})
}

// Requests that gathered under one limit are not sent under another.
func TestLimiterSplitsCallsWhereTheLimitChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCoalesce(t)
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(t.Context(), "", 5, b.waits(500*time.Millisecond))
		slower := reservations.Override{Limit: "steady", Meter: "tokens", Rate: 5, Period: time.Second, Capacity: 10}
		if err := inside.Of(b).SetOverrides([]reservations.Override{slower}); err != nil {
			t.Fatal(err)
		}
		b.ask(t.Context(), "", 6, b.waits(2200*time.Millisecond)) // 11 promised, 5 a second
		b.ask(t.Context(), "", 4, b.waits(3*time.Second))
		b.open(3)
		b.wantCalls([]float64{10}, []float64{5}, []float64{6, 4})
	})
}

type tracing struct{}

// contextStore shows the context of a call.
type contextStore struct {
	reservations.Store

	seen chan context.Context
}

func (s contextStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s contextStore) Apply(
	ctx context.Context, _ bucket.Limit, _ string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	s.seen <- ctx
	return make([]bucket.Answer, len(requests)), nil
}

// The call to the store has the values of the first caller's context, and a deadline of its own.
func TestLimiterCallContext(t *testing.T) {
	t.Parallel()
	seen := make(chan context.Context, 1)
	l, err := reservations.New(contextStore{seen: seen}, []reservations.Limit{steady()}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), tracing{}, "trace")
	if _, err := l.Ask(ctx, chargeOf("steady", 1)); err != nil {
		t.Fatal(err)
	}
	got := <-seen
	deadline, ok := got.Deadline()
	if got.Value(tracing{}) != "trace" || !ok || time.Until(deadline) > reservations.CallTimeoutDefault {
		t.Errorf("value %v, deadline %v", got.Value(tracing{}), deadline)
	}
}
