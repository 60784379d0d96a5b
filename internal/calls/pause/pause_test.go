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
