package scheduler

import (
	"errors"
	"testing"
	"time"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		n      int
		random float64
		want   time.Duration
	}{
		{errors.New("boom"), 0, .5, 2 * time.Second},
		{errors.New("boom"), 3, 0, 8 * time.Second},
		{errors.New("boom"), 1000, .5, time.Hour},
		{&DeferredError{Delay: 100 * time.Second}, 7, .5, 100*time.Second + 2*time.Minute + 10*time.Second + 5*time.Second},
		{&DeferredError{Delay: 100 * time.Second, unwatched: true}, 7, .5, 101 * time.Second},
	} {
		if got := retryDelay(c.n, c.err, c.random); got != c.want {
			t.Errorf("%v after %d failures: %v, want %v", c.err, c.n, got, c.want)
		}
	}
	if IsFailure(nil) || !IsFailure(errors.New("boom")) || IsFailure(&DeferredError{}) {
		t.Error("what counts as a failure")
	}
}

func TestOutages(t *testing.T) {
	t.Parallel()
	var o outages
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if o.over("a") {
		t.Error("an outage ended that never began")
	}
	for _, c := range []struct{ at, want time.Duration }{{0, 0}, {4 * time.Second, 4 * time.Second}, {time.Minute, 0}} {
		if got := o.lasted("a", now.Add(c.at)); got != c.want {
			t.Errorf("after %v the outage has lasted %v, want %v", c.at, got, c.want)
		}
	}
	if !o.over("a") || o.over("a") {
		t.Error("an outage ends once")
	}
	for _, c := range []struct {
		lasted time.Duration
		random float64
		want   time.Duration
	}{
		{0, 0, time.Second}, {0, 1, 2 * time.Second}, {4 * time.Second, .5, 6 * time.Second},
		{time.Hour, 0, 10 * time.Second},
	} {
		if got := outageDelay(c.lasted, c.random); got != c.want {
			t.Errorf("%v: %v, want %v", c.lasted, got, c.want)
		}
	}
}
