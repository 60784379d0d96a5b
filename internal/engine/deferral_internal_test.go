package engine

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

// The first answer of a store that was away ends the outage of all its buckets, and no fault of a bucket.
func TestFaults(t *testing.T) {
	t.Parallel()
	var f faults
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if f.over("a") {
		t.Error("an outage ended that never began")
	}
	f.note("a", fault{until: now.Add(time.Second)}, false)
	f.note("b", fault{until: now.Add(time.Second)}, true)
	if _, ok := f.find("a", now); ok {
		t.Error("a bucket is not asked whose store was away")
	}
	if _, ok := f.find("b", now); !ok {
		t.Error("a bucket is asked that alone can't be asked")
	}
	if _, ok := f.find("b", now.Add(time.Second)); ok {
		t.Error("a pause does not end")
	}
	if !f.over("a") || f.over("a") {
		t.Error("an outage ends once")
	}
	f.note("a", fault{until: now.Add(time.Second)}, false)
	if !f.over("") || f.over("a") {
		t.Error("the answer of a store does not end its outage")
	}
	if _, ok := f.find("b", now); !ok {
		t.Error("the end of an outage ended the fault of a bucket")
	}
	if f.over("b") {
		t.Error("the end of a fault is taken for that of an outage")
	}
}
