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

func TestLimiterBlock(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	c := chargeOf("steady", 1)
	c.Key = "k"
	if _, err := l.Block(ctx, chargeOf("unknown", 1), time.Second); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("of an unknown limit: %v", err)
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if o, err := l.Block(ctx, c, d); err != nil || o != nil {
			t.Errorf("for %v: %+v, %v", d, o, err)
		}
	}
	if calls := l.store.asked(); len(calls) > 0 {
		t.Errorf("the store was asked %v", calls)
	}
	if o, err := l.Block(ctx, c, 5*time.Second); err != nil || len(o) != 1 || o[0].State != settled ||
		o[0].Wait() != 5*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
	l.mustStart(t, chargeOf("steady", 10)) // another bucket
	if o, err := l.Ask(ctx, c); err != nil || o.State != reserved || o.Wait() != 5100*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := l.Unblock(ctx, "steady", "k"); err != nil || len(o) != 1 || !o[0].Bucket.Blocked.IsZero() {
		t.Errorf("%+v, %v", o, err)
	}
	c.Held = reserved
	if o, err := l.Ask(ctx, c); err != nil || !o.Started() ||
		o.Hold != 100*time.Millisecond {
		t.Errorf("after an unblock: %+v, %v", o, err)
	}
	if _, err := l.Block(ctx, c, time.Hour); err != nil {
		t.Error(err)
	}
	if err := l.Reset(ctx, "steady", "k"); err != nil {
		t.Fatal(err)
	}
	l.mustStart(t, c)
}

// While the store is away a block is repeated for what is left of it, and no longer.
func TestLimiterBlockRepeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults int
		length time.Duration
		limit  time.Duration // of the context
		want   error
	}{
		{"until the store is back", 3, time.Minute, time.Hour, nil},
		{"until it would be over", 1000, 10 * time.Second, time.Hour, reservations.ErrUnavailable},
		{"until the longest block would be over", 1000, 10 * time.Hour, time.Hour, reservations.ErrUnavailable},
		{"until the context ends", 1000, time.Hour, 5 * time.Second, reservations.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, steady())
				for range c.faults {
					l.store.faults = append(l.store.faults, down)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				start := time.Now()
				if _, err := l.Block(ctx, chargeOf("steady", 0), c.length); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				took, calls := time.Since(start), l.store.asked()
				if took > min(c.length, c.limit, bucket.MaxBlockDefault) {
					t.Errorf("took %v", took)
				}
				if last := calls[len(calls)-1][0].For; len(calls) < 4 || calls[0][0].For != c.length || last >= c.length ||
					last <= 0 {
					t.Errorf("%d calls, the last for %v", len(calls), last)
				}
			})
		})
	}
}
