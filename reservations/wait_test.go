package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// switched is a store that can be away.
type switched struct {
	reservations.Store

	away atomic.Bool
}

func (s *switched) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *switched) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	if s.away.Load() {
		return nil, &bucket.UnavailableError{Bucket: limit.Name, Applied: bucket.AppliedNo, Err: errCable}
	}
	return bucket.Apply(ctx, s.Store, limit, key, requests)
}

// virtual is a limiter above a store in memory, for the virtual clock of a synctest.
func virtual(t *testing.T, config reservations.Config, limits ...reservations.Limit,
) (*reservations.Limiter, *switched) {
	t.Helper()
	store := &switched{Store: memstore.New()}
	l, err := reservations.New(store, limits, config)
	if err != nil {
		t.Fatal(err)
	}
	return l, store
}

// per is a limit of rate tokens a second, one at once.
func per(name string, rate float64) reservations.Limit {
	return reservations.Limit{Name: name, Meters: []reservations.Meter{
		{Name: "tokens", Rate: rate, Period: time.Second, Capacity: 1},
	}}
}

// level is what may start now; in debt it is negative.
func level(t *testing.T, l *reservations.Limiter, limit string) (started, promised float64) {
	t.Helper()
	v, err := l.View(t.Context(), limit, "")
	if err != nil {
		t.Fatal(err)
	}
	return v.Meters[0].Level, v.Meters[0].Promised
}

// Callers without a waitlist start when their tokens are there, to the moment, and never above the limit.
func TestWaitByItself(t *testing.T) {
	t.Parallel()
	for name, reserved := range map[string]float64{
		"promised": 0, "without promises": reservations.None,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limit := per("api", 10)
				limit.Meters[0].MaxReserved = reserved
				l, _ := virtual(t, reservations.Config{}, limit)
				began := time.Now()
				var mu sync.Mutex
				var starts []time.Duration
				var callers sync.WaitGroup
				for range 21 {
					callers.Go(func() {
						if _, err := l.Wait(t.Context(), chargeOf("api", 1)); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						starts = append(starts, time.Since(began))
					})
				}
				callers.Wait()
				last := starts[len(starts)-1]
				if most := 2*time.Second + map[bool]time.Duration{false: 3 * time.Second}[reserved > 0]; last < 2*time.Second ||
					last > most {
					t.Errorf("the last of 21 started after %v", last)
				}
				for i, at := range starts {
					if earliest := time.Duration(i) * 100 * time.Millisecond; at < earliest-time.Microsecond {
						t.Errorf("start %d at %v, above the limit", i, at)
					}
				}
			})
		})
	}
}

// A caller that gives up has given back at once what it was promised.
func TestWaitThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := virtual(t, reservations.Config{}, per("tenant", 100), per("api", 1))
		for range 2 { // one starts at once, one holds no promise
			if _, err := l.Wait(t.Context(), chargeOf("api", 1)); err != nil {
				t.Fatal(err)
			}
		}
		why := errors.New("the user went away")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, why)
		defer cancel()
		_, err := l.Wait(ctx, chargeOf("tenant", 1), chargeOf("api", 1))
		ended, ok := errors.AsType[*reservations.ChargeError](err)
		if !ok || ended.Charge.Bucket().String() != "api" || !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		if _, promised := level(t, l, "api"); promised != 0 {
			t.Errorf("%v tokens are still promised", promised)
		}
		if left, _ := level(t, l, "tenant"); left != 1 {
			t.Errorf("the tenant has %v left, want what it had", left)
		}
		if _, err = l.Wait(ctx, chargeOf("api", 1)); !errors.Is(err, why) {
			t.Errorf("a caller whose context has ended: %v", err)
		}
	})
}

// While the store is away nothing starts, and the caller goes on when it is back; or ends with both reasons.
func TestWaitForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, store := virtual(t, reservations.Config{}, per("api", 10))
		store.away.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Wait(ctx, chargeOf("api", 1))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, reservations.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		began := time.Now()
		time.AfterFunc(time.Hour, func() { store.away.Store(false) })
		if _, err = l.Wait(t.Context(), chargeOf("api", 1)); err != nil || time.Since(began) < time.Hour ||
			time.Since(began) > time.Hour+10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// What can never start is refused at once.
func TestWaitForNothing(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, per("api", 1), per("tenant", 1))
	twice := []reservations.Charge{chargeOf("tenant", 1), chargeOf("api", 1), chargeOf("tenant", 2)}
	if _, err := l.Wait(t.Context(), twice...); !errors.Is(err, reservations.ErrInvalidCharge) {
		t.Errorf("%v", err)
	}
	if _, err := l.Wait(t.Context(), chargeOf("tenant", 1), chargeOf("none", 1)); !errors.Is(err,
		reservations.ErrUnknownLimit) {
		t.Errorf("%v", err)
	}
	if g, err := l.Wait(t.Context()); err != nil || !g.Started() || g.Settle(t.Context(), nil) != nil ||
		g.Block(t.Context(), time.Hour) != nil {
		t.Errorf("no charges: %+v, %v", g, err)
	}
	if len(l.store.calls) > 0 {
		t.Errorf("the store was asked: %v", l.store.calls)
	}
}

// Of several limits all start or none, whichever call gives up, settles or cancels, at any moment: what is taken from
// pools that nothing refills is what the granted calls used, to the token. The buckets are half empty, so that the
// provider has room for all that comes back.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(r *rapid.T) {
		var limits []reservations.Limit
		for k := range rapid.IntRange(2, 4).Draw(r, "limits") {
			limits = append(limits, reservations.Limit{Name: string(rune('a' + k)), Meters: []reservations.Meter{{
				Name: "tokens", Rate: 1e-9, Period: time.Hour, Capacity: 2 * rapid.Float64Range(1, 20).Draw(r, "pool"),
				MaxReserved: reservable(rapid.SampledFrom([]float64{0, 5, inf}).Draw(r, "max_reserved")),
			}}})
		}
		calls := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) pooledCall { return drawPooled(r, limits) }), 1, 12).
			Draw(r, "calls")
		var faults []string
		synctest.Test(t, func(t *testing.T) {
			l, _ := virtual(t, reservations.Config{}, limits...)
			var running sync.WaitGroup
			left := map[string]float64{}
			for _, limit := range limits {
				left[limit.Name] = limit.Meters[0].Capacity / 2
				if _, err := l.Allow(t.Context(), chargeOf(limit.Name, left[limit.Name])); err != nil {
					t.Fatal(err)
				}
			}
			var mu sync.Mutex
			for _, c := range calls {
				running.Go(func() {
					used := c.run(t, l)
					mu.Lock()
					defer mu.Unlock()
					for limit, n := range used {
						left[limit] -= n
					}
				})
			}
			running.Wait()
			for name, want := range left {
				got, promised := level(t, l, name)
				if math.Abs(got-want) > 1e-6 || promised > 1e-6 {
					faults = append(faults, fmt.Sprintf("%s has %v left and %v promised, want %v", name, got, promised, want))
				}
			}
		})
		if len(faults) > 0 {
			r.Fatal(faults)
		}
	})
}

// pooledCall is one call that takes from pools.
type pooledCall struct {
	at, patience, lasts time.Duration
	charges             []reservations.Charge
	allow               bool
	end                 string
	used                float64
}

func drawPooled(r *rapid.T, limits []reservations.Limit) pooledCall {
	ms := func(most int, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(r, name)) * time.Millisecond
	}
	c := pooledCall{
		at: ms(300, "at"), patience: ms(400, "patience"), lasts: ms(300, "lasts"), allow: rapid.Bool().Draw(r, "allow"),
		end: rapid.SampledFrom([]string{"settle", "cancel", "neither", "panic"}).Draw(r, "end"),
	}
	for _, limit := range rapid.Permutation(limits).Draw(r, "order")[:rapid.IntRange(1, len(limits)).Draw(r, "of")] {
		tokens := rapid.Float64Range(0, limit.Meters[0].Capacity/2).Draw(r, "tokens")
		c.charges = append(c.charges, chargeOf(limit.Name, tokens))
	}
	c.used = rapid.Float64Range(0, 1).Draw(r, "used")
	return c
}

// run returns what stays charged, by limit.
func (c pooledCall) run(t *testing.T, l *reservations.Limiter) (used map[string]float64) {
	t.Helper()
	<-time.After(c.at) //gate:ok called in a bubble
	ctx, cancel := context.WithTimeout(t.Context(), c.patience)
	defer cancel()
	used = map[string]float64{}
	call := func(end func(used reservations.Tokens, cancelled bool)) {
		<-time.After(c.lasts) //gate:ok called in a bubble
		for _, charge := range c.charges {
			used[charge.Limit] = charge.Tokens["tokens"]
		}
		switch c.end {
		case "settle":
			for limit := range used {
				used[limit] = c.used
			}
			end(reservations.Tokens{"tokens": c.used}, false)
		case "cancel":
			clear(used)
			end(nil, true)
		default:
			end(nil, false)
		}
	}
	if c.allow {
		g, err := l.Allow(ctx, c.charges...)
		if err == nil && g.Started() {
			call(func(used reservations.Tokens, cancelled bool) {
				if cancelled {
					err = g.Cancel(t.Context())
				} else {
					err = g.Settle(t.Context(), used)
				}
			})
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		return used
	}
	defer func() { _ = recover() }()
	err := l.Do(ctx, c.charges, func(context.Context) (tokens reservations.Tokens, err error) {
		call(func(used reservations.Tokens, cancelled bool) {
			tokens = used
			if cancelled {
				err = reservations.ErrNotCalled
			}
		})
		if c.end == "panic" {
			panic("as drawn")
		}
		return tokens, err
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, reservations.ErrNotCalled) {
		t.Error(err)
	}
	return used
}
