package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/calls/pause"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		began, tries := time.Now(), 0
		try := func() error {
			if tries++; tries < 5 {
				return away
			}
			return nil
		}
		if err := pause.Until(t.Context(), time.Second, 3*time.Second, try); err != nil ||
			time.Since(began) != 9*time.Second {
			t.Errorf("%v after %v, want 1 + 2 + 3 + 3 s", err, time.Since(began))
		}
		tries = -100
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := pause.Until(ctx, time.Second, time.Second, try); !errors.Is(err, away) {
			t.Errorf("after the end of its time: %v", err)
		}
		if err := pause.For(ctx, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pause after the end of its time: %v", err)
		}
	})
}

func TestBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy, broken := errors.New("busy"), errors.New("broken")
		transient := func(err error) bool { return errors.Is(err, busy) }
		for _, c := range []struct {
			name    string
			answers []error // of the calls; the last one repeats
			want    error
			calls   int
		}{
			{"good at once", []error{nil}, nil, 1},
			{"busy twice", []error{busy, busy, nil}, nil, 3},
			{"broken", []error{broken}, broken, 1},
			{"busy, then broken", []error{busy, broken, nil}, broken, 2},
			{"busy for ever", []error{busy}, busy, 8},
		} {
			calls, began := 0, time.Now()
			err := pause.Briefly(t.Context(), transient, func() error {
				calls++
				return c.answers[min(calls, len(c.answers))-1]
			})
			if !errors.Is(err, c.want) || calls != c.calls || time.Since(began) >= 2*time.Second {
				t.Errorf("%s: %v after %d calls in %v", c.name, err, calls, time.Since(began))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		if err := pause.Briefly(ctx, transient, func() error {
			calls++
			cancel()
			return busy
		}); !errors.Is(err, busy) || calls != 1 {
			t.Errorf("after the end of its context: %v, %d calls", err, calls)
		}
	})
}
