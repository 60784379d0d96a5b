package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	last := &delivery{retried: 2, maxRetry: 2, allowed: 22}
	if err := last.verdict(broken); !errors.Is(err, asynq.SkipRetry) || !errors.Is(err, broken) ||
		err.Error() != "broken" {
		t.Errorf("last failure: %v", err)
	}
	if err := last.verdict(nil); err != nil {
		t.Errorf("success: %v", err)
	}
	if err := last.verdict(asynq.RevokeTask); errors.Is(err, asynq.SkipRetry) {
		t.Errorf("revoked: %v", err)
	}
	crashed := &delivery{retried: 3, maxRetry: 2, allowed: 22}
	if err := crashed.verdict(broken); !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("failure after crashes: %v", err)
	}
	first := &delivery{maxRetry: 2, allowed: 22}
	if err := first.verdict(broken); errors.Is(err, asynq.SkipRetry) {
		t.Errorf("first failure: %v", err)
	}
}

func TestAheadOfTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for timeout, margin := range map[time.Duration]time.Duration{
			time.Second: 50 * time.Millisecond, time.Hour: time.Second,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			early, cancelEarly := ahead(ctx, wholeMargin)
			at, _ := early.Deadline()
			if got := time.Until(at); got != timeout-margin {
				t.Errorf("of %v a handler has %v", timeout, got)
			}
			cancelEarly()
			cancel()
		}
		endless, cancel := ahead(t.Context(), wholeMargin)
		defer cancel()
		if _, ok := endless.Deadline(); ok {
			t.Error("a context without a deadline got one")
		}
	})
}

// What asynq logs below the level of the logger is left out.
func TestAsynqLogger(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{
		slog.LevelDebug: 5, slog.LevelInfo: 4, slog.LevelWarn: 3, slog.LevelError: 2,
	} {
		var out bytes.Buffer
		l := asynqLogger{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))}
		l.Debug("said")
		l.Info("said")
		l.Warn("said")
		l.Error("said")
		l.Fatal("said")
		if n := bytes.Count(out.Bytes(), []byte("says=said")); n != want {
			t.Errorf("%v: %d lines, want %d", level, n, want)
		}
	}
}
