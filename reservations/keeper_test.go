package reservations_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// cutStore is a store that can be away, and counts its calls.
type cutStore struct {
	reservations.Store
	away  atomic.Bool
	calls atomic.Int64
}

func (s *cutStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *cutStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	s.calls.Add(1)
	if s.away.Load() {
		return nil, &bucket.UnavailableError{Bucket: limit.Name, Err: errors.New("away")}
	}
	return bucket.Apply(ctx, s.Store, limit, key, requests)
}

// callers is a process with a Limiter for a number of calls in flight.
type callers struct {
	*reservations.Limiter
	store    *cutStore
	answered atomic.Int64
}

func newCallers(t *testing.T, most int) *callers {
	t.Helper()
	c := &callers{store: &cutStore{Store: memstore.New()}}
	var err error
	if c.Limiter, err = reservations.New(c.store, []reservations.Limit{calls(most)}, reservations.Config{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *callers) keep(t *testing.T, charges ...reservations.Charge) (ctx context.Context, stop func()) {
	t.Helper()
	return c.Keep(t.Context(), func(reservations.Outcome) { c.answered.Add(1) }, charges...)
}

// call starts one call, which must be allowed, and returns the charge to be settled.
func (c *callers) call(t *testing.T) reservations.Charge {
	t.Helper()
	o, err := c.Ask(t.Context(), reservations.Charge{Limit: "fleet"})
	if err != nil || !o.Started() || o.Charge.Lease == 0 || time.Until(o.Charge.LeaseEnd) != 20*time.Second {
		t.Fatalf("start: %+v, %v", o, err)
	}
	return o.Charge
}

// starts says whether one more call starts.
func (c *callers) starts(t *testing.T) bool {
	t.Helper()
	o, err := c.Check(t.Context(), reservations.Charge{Limit: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	return o.Started()
}

// All leases of a bucket are renewed by one request every 5 seconds, until their calls end.
func TestKeepRenews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 300
		c := newCallers(t, many)
		var charges []reservations.Charge
		var stops []func()
		var contexts []context.Context
		for range many {
			charge := c.call(t)
			ctx, stop := c.keep(t, charge, reservations.Charge{Limit: "other"})
			charges, stops, contexts = append(charges, charge), append(stops, stop), append(contexts, ctx)
		}
		before := c.store.calls.Load()
		<-time.After(10*time.Minute + time.Second)
		if n := c.store.calls.Load() - before; n != 120 || c.answered.Load() != n*many {
			t.Errorf("%d requests in 10 minutes, and %d answers; want 120, for each call", n, c.answered.Load())
		}
		if c.starts(t) {
			t.Errorf("one call more than %d starts", many)
		}
		for i := range charges {
			if err := contexts[i].Err(); err != nil {
				t.Fatalf("call %d: %v", i, context.Cause(contexts[i]))
			}
			stops[i]()
			for range 2 {
				if _, err := c.Settle(t.Context(), charges[i], nil, "x"); err != nil {
					t.Fatal(err)
				}
			}
		}
		v, err := c.View(t.Context(), "fleet", "")
		if err != nil || v.Meters[0].Level != many {
			t.Errorf("after all calls: %+v, %v", v, err)
		}
		before = c.store.calls.Load()
		<-time.After(time.Minute)
		if n := c.store.calls.Load() - before; n != 0 {
			t.Errorf("%d requests without a call", n)
		}
	})
}

// Where the store is away, a call ends 20 seconds after its lease was last renewed, and before the bucket has another
// one start.
func TestKeepStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t, 1)
		charge := c.call(t)
		ctx, stop := c.keep(t, charge)
		<-time.After(31 * time.Second) // renewed a second ago
		c.store.away.Store(true)
		<-ctx.Done()
		stop()
		synctest.Wait() // a renewal may be on its way
		c.store.away.Store(false)
		cause := context.Cause(ctx)
		if !errors.Is(cause, reservations.ErrLeaseLost) || !errors.Is(cause, reservations.ErrUnavailable) ||
			!strings.Contains(cause.Error(), "bucket fleet") {
			t.Errorf("the cause is %v", cause)
		}
		if c.starts(t) {
			t.Error("another call starts at once")
		}
		<-time.After(4 * time.Second)
		if c.starts(t) {
			t.Error("another call starts after 4 s")
		}
		<-time.After(3 * time.Second)
		if !c.starts(t) {
			t.Error("no other call starts 7 s after")
		}
	})
}

// A store that answers again in time costs no call.
func TestKeepStoreBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t, 1)
		ctx, stop := c.keep(t, c.call(t))
		defer stop()
		c.store.away.Store(true)
		<-time.After(19 * time.Second)
		c.store.away.Store(false)
		<-time.After(time.Minute)
		if ctx.Err() != nil {
			t.Errorf("the call ended: %v", context.Cause(ctx))
		}
	})
}

// The calls of a bucket that was reset end at the next renewal.
func TestKeepReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t, 1)
		began := time.Now()
		ctx, stop := c.keep(t, c.call(t))
		defer stop()
		if err := c.Reset(t.Context(), "fleet", ""); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), reservations.ErrLeaseLost) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", context.Cause(ctx), time.Since(began))
		}
	})
}

// A call without a lease sends nothing, and ends with its context.
func TestKeepWithoutLease(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	kept, stop := setupLimiter(t).Keep(ctx, nil, reservations.Charge{Limit: "fleet"})
	if kept.Err() != nil {
		t.Error(kept.Err())
	}
	cancel()
	if <-kept.Done(); !errors.Is(context.Cause(kept), context.Canceled) {
		t.Error(context.Cause(kept))
	}
	stop()
}

// A direct call keeps its slot for as long as it runs; another one has it soon after.
func TestDoKeepsTheSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t, 1)
		var running, calls atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for range 3 {
			all.Go(func() {
				err := c.Do(t.Context(), []reservations.Charge{{Limit: "fleet"}},
					func(ctx context.Context) (reservations.Tokens, error) {
						if running.Add(1) != 1 {
							t.Error("two calls run")
						}
						defer running.Add(-1)
						<-time.After(time.Minute)
						calls.Add(1)
						return nil, context.Cause(ctx)
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); calls.Load() != 3 || took > 3*time.Minute+3*time.Second {
			t.Errorf("%d calls of a minute in %v", calls.Load(), took)
		}
	})
}

// A Grant that did not start holds nothing: to keep it ends no context, because the slot was given back.
func TestKeepWhatDidNotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := virtual(t, reservations.Config{}, calls(1), per("api", 1))
		charges := []reservations.Charge{{Limit: "fleet"}, chargeOf("api", 1)}
		for _, starts := range []bool{true, false} {
			g, err := l.Allow(t.Context(), charges...)
			if err != nil || g.Started() != starts {
				t.Fatalf("started is %v, %v; want %v", !starts, err, starts)
			}
			ctx, stop := g.Keep(t.Context())
			<-time.After(6 * time.Second) // a renewal later
			if ctx.Err() != nil {
				t.Errorf("started is %v, and the context has ended: %v", starts, context.Cause(ctx))
			}
			stop()
			if err = g.Settle(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if _, err = l.Block(t.Context(), chargeOf("api", 1), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A start that came too late gives back what it took when it asks again.
func TestLateStartsLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := limitOf(reservations.PerDay("usd", 100))
		budget.Meters[0].Kind = reservations.KindBucket
		l, _ := virtual(t, reservations.Config{}, budget)
		const always = -time.Hour // every start is too late
		asked := 0
		ask := func(_ reservations.Charge, _ bool, ask func(context.Context) error) error {
			asked++
			<-time.After(time.Second)
			return ask(t.Context())
		}
		charge := reservations.Charge{Limit: budget.Name, Tokens: reservations.Tokens{"usd": 60}}
		stopped, err := l.Start("first", charge).Begin(t.Context(), always, ask)
		started, promised := level(t, l, budget.Name)
		if err != nil || stopped >= 0 || asked != 3 || started < 40 || started > 40.01 || promised > 0 {
			t.Errorf("stopped by %d, %v, after %d requests; %v are left, %v promised", stopped, err, asked, started, promised)
		}
	})
}

// Starts that came too late, and are not asked for again because an earlier bucket can't be asked, are the caller's to
// cancel: their tokens and slots are free at once.
func TestBeginLeavesNoLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fleet := limitOf(reservations.InFlight(1), reservations.PerSecond("tokens", 100)) // slots alone are never late
		l, _ := virtual(t, reservations.Config{}, per("api", 1), fleet)
		const always = -time.Hour // every start is too late
		once := func(_ reservations.Charge, again bool, ask func(context.Context) error) error {
			if again {
				return reservations.ErrUnavailable
			}
			return ask(t.Context())
		}
		g := l.Start("first", chargeOf("api", 1), chargeOf("fleet", 0))
		stopped, err := g.Begin(t.Context(), always, once)
		if !errors.Is(err, reservations.ErrUnavailable) || stopped != 0 {
			t.Fatalf("stopped by %d, %v; want the second start of api", stopped, err)
		}
		if err = g.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o, err := l.Ask(t.Context(), chargeOf("fleet", 0)); err != nil || !o.Started() {
			t.Errorf("%+v, %v: the slot is still taken", o, err)
		}
		if o, err := l.Ask(t.Context(), chargeOf("api", 1)); err != nil || !o.Started() {
			t.Errorf("%+v, %v: the token is still taken", o, err)
		}
	})
}
