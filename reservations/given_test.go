package reservations_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// A limit that the caller gives is kept by every call, beside configured ones.
func TestGivenLimit(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, pool())
	limit, invalid, configured := per("", 1), per("mine", -1), per("pool", 1)
	c := reservations.Charge{Limit: "mine", Key: "k", Tokens: reservations.Tokens{"tokens": 1}, Given: &limit}
	if err := l.Validate(c); err != nil {
		t.Fatal(err)
	}
	used := func(context.Context) (reservations.Tokens, error) { return reservations.Tokens{"tokens": 0.25}, nil }
	if err := l.Do(t.Context(), []reservations.Charge{poolOf(1), c}, used); err != nil {
		t.Fatal(err)
	}
	if left := l.left("mine", "k"); left["tokens"] != 0.75 {
		t.Errorf("left %v", left)
	}
	if o, err := l.Check(t.Context(), c); err != nil || o.State != bucket.StateRefused {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := l.Reserve(t.Context(), c); err != nil || o[0].State != bucket.StateReserved {
		t.Errorf("%+v, %v", o, err)
	} else if _, err = l.Release(t.Context(), o[0].Charge); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]reservations.Charge{
		"not valid":  {Limit: "mine", Given: &invalid},
		"configured": {Limit: "pool", Given: &configured},
	} {
		if _, err := l.Wait(t.Context(), c); !errors.Is(err, reservations.ErrInvalidCharge) ||
			!reservations.IsPermanent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := json.Marshal(c); err != nil || string(text) != `{"limit":"mine","key":"k","tokens":{"tokens":1}}` {
		t.Errorf("%s, %v", text, err)
	}
}

// A limit of the program's own database is asked for once in ResolvedFor, and followed after it.
func TestResolve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rate atomic.Int64
		var asked atomic.Int64
		rate.Store(1)
		l, _ := virtual(t, reservations.Config{Resolve: func(_ context.Context, name, key string) (reservations.Limit,
			error,
		) {
			<-time.After(time.Millisecond)
			asked.Add(1)
			switch {
			case name != "users":
				return reservations.Limit{}, fmt.Errorf("%w: no table %s", reservations.ErrUnknownLimit, name)
			case rate.Load() == 0:
				return reservations.Limit{}, errors.New("connection reset")
			}
			return per("ignored", float64(rate.Load())), nil
		}}, pool())
		charge := reservations.Charge{Limit: "users", Key: "ada", Tokens: reservations.Tokens{"tokens": 1}}
		if err := l.Validate(charge); err != nil {
			t.Error(err)
		}
		var callers sync.WaitGroup
		began := time.Now()
		for range 4 {
			callers.Go(func() {
				if g, err := l.Wait(t.Context(), charge); err != nil || g.Settle(t.Context(), nil) != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began).Round(time.Second / 10); took != 3*time.Second || asked.Load() != 1 {
			t.Errorf("four took %v at one a second, and asked %d times", took, asked.Load())
		}
		rate.Store(0)
		if o, err := l.Ask(t.Context(), charge); err != nil {
			t.Errorf("within ResolvedFor: %+v, %v", o, err)
		}
		<-time.After(reservations.ResolvedFor)
		if _, err := l.Allow(t.Context(), charge); !errors.Is(err, reservations.ErrUnavailable) ||
			!errors.Is(err, bucket.ErrBucket) {
			t.Errorf("Resolve fails: %v", err)
		}
		time.AfterFunc(time.Minute, func() { rate.Store(100) })
		began = time.Now()
		if _, err := l.Wait(t.Context(), charge); err != nil || time.Since(began) < time.Minute ||
			time.Since(began) > 70*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if limit, err := l.LimitFor(t.Context(), charge); err != nil || limit.Name != "users" || limit.Meters[0].Rate != 100 {
			t.Errorf("%+v, %v", limit, err)
		}
		for name, want := range map[string]error{
			"tables": reservations.ErrUnknownLimit, "no name!": reservations.ErrInvalidCharge,
		} {
			if _, err := l.Wait(t.Context(), chargeOf(name, 1)); !errors.Is(err, want) || !reservations.IsPermanent(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := l.Wait(t.Context(), poolOf(1)); err != nil {
			t.Error(err)
		}
	})
}

// What Resolve returns is not trusted: a limit that is not valid, or a panic, fails closed.
func TestResolveThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, resolve := range map[string]func(context.Context, string, string) (reservations.Limit, error){
		"invalid": func(context.Context, string, string) (reservations.Limit, error) { return per("users", -1), nil },
		"panics":  func(context.Context, string, string) (reservations.Limit, error) { panic("nil map") },
	} {
		l, _ := virtual(t, reservations.Config{Resolve: resolve})
		if _, err := l.Allow(t.Context(), chargeOf("users", 1)); !errors.Is(err, reservations.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
