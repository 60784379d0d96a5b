package chat

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("redis is away")

// awayUntil is a store that can't write a result before a given time.
type awayUntil struct {
	back    time.Time
	written string
}

func (a *awayUntil) Write(b []byte) (int, error) {
	if time.Now().Before(a.back) {
		return 0, errAway
	}
	a.written += string(b)
	return len(b), nil
}

func TestKeepOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &awayUntil{back: time.Now().Add(keepPatience / 2)}
		if err := keep(t.Context(), a, []byte("answer")); err != nil || a.written != "answer" {
			t.Errorf("error %v, written %q", err, a.written)
		}
	})
}

func TestKeepGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := &awayUntil{back: began.Add(time.Hour)}
		if err := keep(t.Context(), a, []byte("answer")); !errors.Is(err, errAway) || time.Since(began) != keepPatience {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := keep(ctx, a, []byte("answer")); !errors.Is(err, errAway) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
