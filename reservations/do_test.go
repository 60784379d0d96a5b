package reservations_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// pool is a limit of 100 tokens and 10 requests that nothing refills within a test.
func pool() reservations.Limit {
	return reservations.Limit{Name: "pool", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 100, Period: 1000 * time.Hour}, {Name: "requests", Rate: 10, Period: 1000 * time.Hour},
	}}
}

// poolOf is a charge of tokens, and of no request, to pool.
func poolOf(tokens float64) reservations.Charge {
	c := chargeOf("pool", tokens)
	c.Tokens["requests"] = 0
	return c
}

// How the call ends decides what stays charged.
func TestDo(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	type tokens = reservations.Tokens
	for name, c := range map[string]struct {
		used     tokens
		err      error
		left     float64 // of 100 tokens, after a charge of 40
		requests float64 // of 10, after a charge of 1
		blocked  time.Duration
		want     []error
	}{
		"as estimated":    {left: 60, requests: 9},
		"less":            {used: tokens{"tokens": 10}, left: 90, requests: 9},
		"more":            {used: tokens{"tokens": 70}, left: 30, requests: 9},
		"failed":          {err: broken, left: 60, requests: 9, want: []error{broken}},
		"failed half-way": {used: tokens{"tokens": 25}, err: broken, left: 75, requests: 9, want: []error{broken}},
		"never called": {
			used: tokens{"tokens": 25}, err: reservations.ErrNotCalled, left: 100, requests: 10,
			want: []error{reservations.ErrNotCalled},
		},
		"refused": {
			err: reservations.RetryAfter(time.Minute, broken), blocked: time.Minute,
			want: []error{broken},
		},
		"refused with no time": {
			err: reservations.RetryAfter(0, broken), blocked: time.Second, want: []error{broken},
		},
		"refused, not counted": {
			used: tokens{"tokens": 0, "requests": 0}, err: reservations.RetryAfter(time.Minute, nil),
			blocked: time.Minute, left: 40, requests: 1,
		},
		"an amount that is not": {
			used: tokens{"tokens": 10, "pages": 3}, left: 90, requests: 9,
			want: []error{reservations.ErrUnknownMeter},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, _ := virtual(t, reservations.Config{}, pool())
				charge := reservations.Charge{Limit: "pool", Tokens: tokens{"tokens": 40, "requests": 1}}
				ctx, cancel := context.WithCancel(t.Context())
				err := l.Do(ctx, []reservations.Charge{charge}, func(context.Context) (tokens, error) {
					cancel() // the settlement outlives it
					return c.used, c.err
				})
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				}
				if len(c.want) == 0 && !errors.Is(err, c.err) {
					t.Errorf("%v", err)
				}
				v, err := l.View(t.Context(), "pool", "")
				if err != nil {
					t.Fatal(err)
				}
				if got := [2]float64{v.Meters[0].Level, v.Meters[1].Level}; got != [2]float64{c.left, c.requests} ||
					v.Blocked < c.blocked || v.Blocked > c.blocked*3/2 || c.err == nil && v.Blocked > 0 {
					t.Errorf("left %v, blocked for %v; want %v, %v and %v", got, v.Blocked, c.left, c.requests, c.blocked)
				}
			})
		})
	}
}

// Without a call nothing is taken.
func TestDoWithoutACall(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, pool())
	err := l.Do(t.Context(), nil, func(context.Context) (reservations.Tokens, error) {
		t.Error("a call without a charge is unlimited")
		return nil, nil
	})
	if !errors.Is(err, reservations.ErrInvalidCharge) {
		t.Errorf("no charges: %v", err)
	}
	if err := l.Do(t.Context(), []reservations.Charge{poolOf(40)}, nil); err == nil {
		t.Error("there is no error")
	}
	if left := l.left("pool", ""); len(left) != 0 {
		t.Errorf("the bucket was used: %v", left)
	}
}

// A panic goes on, and the estimate stays charged. Of several limits each settles the meters that it has.
func TestDoThatPanics(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, pool(), per("api", 1))
	charges := []reservations.Charge{poolOf(40), chargeOf("api", 1)}
	func() {
		defer func() {
			if value := recover(); value != "as it is" {
				t.Errorf("recovered %v", value)
			}
		}()
		_ = l.Do(t.Context(), charges, func(context.Context) (reservations.Tokens, error) { panic("as it is") })
	}()
	if left := l.left("pool", ""); left["tokens"] != 60 {
		t.Errorf("left %v", left)
	}
	shares := l.Shares(t.Context(), charges, reservations.Tokens{"tokens": 3, "requests": 2, "pages": 1})
	p, a := shares[charges[0].Bucket()], shares[charges[1].Bucket()]
	if len(p) != 2 || p["requests"] != 2 || len(a) != 2 || a["pages"] != 1 || a["tokens"] != 3 {
		t.Errorf("shares %v", shares)
	}
}

// A charge above the capacity holds for the last tokens of a full bucket. If its call uses nothing, all others may
// start at once, and so they may if another limit refuses the start.
func TestDoGivesALargeChargeBack(t *testing.T) {
	t.Parallel()
	for name, refuses := range map[string]bool{"the provider refuses": false, "another limit refuses": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				wide := limitOf(perSecond("tokens", 100, 100, inf))
				l, _ := virtual(t, reservations.Config{}, wide, per("api", 1))
				charges := []reservations.Charge{chargeOf("fleet", 21), chargeOf("api", 1)}
				if _, err := l.Ask(t.Context(), charges[0]); err != nil {
					t.Fatal(err)
				}
				if refuses {
					if _, err := l.Ask(t.Context(), charges[1]); err != nil {
						t.Fatal(err)
					}
				}
				charges[0].Tokens = reservations.Tokens{"tokens": 1e6}
				ctx, cancel := context.WithTimeout(t.Context(), 215*time.Millisecond)
				defer cancel()
				_ = l.Do(ctx, charges, func(context.Context) (reservations.Tokens, error) {
					<-time.After(time.Millisecond)
					return reservations.Unused(charges...), errors.New("too large")
				})
				synctest.Wait()
				if left, promised := level(t, l, "fleet"); left < 99 || promised > 0 {
					t.Errorf("%v of 100 tokens are left, %v promised", left, promised)
				}
			})
		})
	}
}

// A store that is away when the call ends is no error of Do: refill heals what could not be settled.
func TestDoWithoutAStoreInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, store := virtual(t, reservations.Config{}, pool())
		began := time.Now()
		err := l.Do(t.Context(), []reservations.Charge{poolOf(40)},
			func(context.Context) (reservations.Tokens, error) {
				store.away.Store(true)
				return reservations.Tokens{"tokens": 1}, nil
			})
		if took := time.Since(began); err != nil || took > reservations.CallTimeoutDefault {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Allow starts all or nothing, and says in both cases what remains.
func TestAllow(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, pool(), per("api", 1))
	charges := []reservations.Charge{poolOf(40), chargeOf("api", 1)}
	g, err := l.Allow(t.Context(), charges...)
	if err != nil || !g.Started() {
		t.Fatalf("%+v, %v", g, err)
	}
	if o := g.Outcomes(); o[0].Remaining()["tokens"] != 60 || o[0].Remaining()["requests"] != 10 ||
		o[1].Remaining()["tokens"] != 0 {
		t.Errorf("%v and %v remain", o[0].Remaining(), o[1].Remaining())
	}
	g, err = l.Allow(t.Context(), charges...)
	if err != nil || g.Started() {
		t.Fatalf("%+v, %v", g, err)
	}
	if o := g.Outcomes(); o[0].Remaining()["tokens"] != 60 || o[1].State != bucket.StateRefused ||
		o[1].Wait() != time.Second {
		t.Errorf("%+v", o)
	}
	if _, err = l.Allow(t.Context(), poolOf(10), chargeOf("api", 2)); !errors.Is(err,
		reservations.ErrChargeTooLarge) {
		t.Errorf("%v", err)
	}
	if left := l.left("pool", ""); left["tokens"] != 60 {
		t.Errorf("left %v", left)
	}
	if blocked, err := l.Block(t.Context(), poolOf(0), time.Minute); err != nil ||
		blocked[0].Remaining()["requests"] != 0 {
		t.Errorf("%v remain in a block, %v", blocked[0].Remaining(), err)
	}
}
