package dispatcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n      int
		random float64
		want   time.Duration
	}{
		{0, .5, 2 * time.Second},
		{3, 0, 8 * time.Second},
		{1000, .5, time.Hour},
	} {
		if got := retryDelay(c.n, c.random); got != c.want {
			t.Errorf("after %d failures: %v, want %v", c.n, got, c.want)
		}
	}
	watched, alone := &DeferredError{Delay: 100 * time.Second}, &DeferredError{Delay: 100 * time.Second, unwatched: true}
	if got := watched.net(.5); got != 100*time.Second+2*time.Minute+10*time.Second+5*time.Second {
		t.Errorf("the net of a task in a waitlist delivers after %v", got)
	}
	if got := alone.net(.5); got != 101*time.Second {
		t.Errorf("a task in no waitlist is back after %v", got)
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
	if f.over(reservations.BucketName{Limit: "a"}) {
		t.Error("an outage ended that never began")
	}
	away := errors.New("away")
	f.lost(time.Now(), away)
	f.rest(reservations.BucketName{Limit: "b"}, fault{until: now.Add(time.Second), cause: bucket.ErrBucket})
	if _, ok := f.find(reservations.BucketName{Limit: "a"}, now); ok {
		t.Error("a bucket is not asked whose store was away")
	}
	if _, ok := f.find(reservations.BucketName{Limit: "b"}, now); !ok {
		t.Error("a bucket is asked that alone can't be asked")
	}
	if _, ok := f.find(reservations.BucketName{Limit: "b"}, now.Add(time.Second)); ok {
		t.Error("a pause does not end")
	}
	if !f.over(reservations.BucketName{Limit: "a"}) || f.over(reservations.BucketName{Limit: "a"}) {
		t.Error("an outage ends once")
	}
	f.lost(time.Now(), away)
	if !f.over(reservations.BucketName{}) || f.over(reservations.BucketName{Limit: "a"}) {
		t.Error("the answer of a store does not end its outage")
	}
	if _, ok := f.find(reservations.BucketName{Limit: "b"}, now); !ok {
		t.Error("the end of an outage ended the fault of a bucket")
	}
	if f.over(reservations.BucketName{Limit: "b"}) {
		t.Error("the end of a fault is taken for that of an outage")
	}
}

func TestOutageLetsOneAskAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o faults
		ctx, down := t.Context(), errors.New("down")
		everybody := func() bool { return errors.Join(o.admit(ctx), o.admit(ctx)) == nil }
		if !everybody() {
			t.Error("a task does not ask a store that is up")
		}
		asked := time.Now()
		if once, twice := o.lost(asked, down), o.lost(asked, down); !once || twice {
			t.Error("an outage does not begin once")
		}
		if o.admit(ctx) != nil {
			t.Error("no task may probe whether the store is up again")
		}
		began := time.Now()
		if err := o.admit(ctx); !errors.Is(err, down) || time.Since(began) != probePatience {
			t.Errorf("a second one while the first asks: %v after %v", err, time.Since(began))
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := o.admit(gone); !errors.Is(err, down) {
			t.Errorf("one whose time is over: %v", err)
		}
		o.pass()
		if o.admit(ctx) != nil {
			t.Error("the next one may ask when the first learned nothing")
		}
		second := make(chan error)
		go func() { second <- o.admit(ctx) }()
		synctest.Wait()
		if !o.over(reservations.BucketName{}) {
			t.Error("no task was notified of the end of the outage")
		}
		if err := <-second; err != nil {
			t.Errorf("a task that waited for the answer was sent back: %v", err)
		}
		if !everybody() || o.over(reservations.BucketName{}) {
			t.Error("a task does not ask a store that is up again")
		}
		if o.lost(asked, down) || !o.answeredSince(asked) {
			t.Error("a question from before the answer began a new outage")
		}
		if !o.lost(time.Now(), down) || o.answeredSince(time.Now()) {
			t.Error("a question from after the answer began no outage")
		}
	})
}
