package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/reservations"
)

const (
	// pauseShortest and pauseLongest bound how long a bucket is left alone that could not be asked.
	pauseShortest = time.Second
	pauseLongest  = 10 * time.Second
	// probePatience is how long tasks wait for the probe of a store that was down. A store that is back answers within
	// it; the tasks need not go back to their waitlists then.
	probePatience = 50 * time.Millisecond
)

// faults are the buckets that could not be asked, and whether the store answers, as far as this process has seen. The
// zero value is ready. Safe for concurrent use.
type faults struct {
	alone bounded.Map[reservations.BucketName, fault]

	mu       sync.Mutex    // guards what is below
	away     error         // why the store did not answer; nil while it answers
	noted    time.Time     // when it did not answer last
	answered time.Time     // when it last answered
	probe    chan struct{} // nil if no task asks a store that is away; closed by the answer
}

// fault is that of a bucket. As an error it is why a bucket that alone can't be asked is not asked before its pause
// ends.
type fault struct {
	until time.Time // the end of the pause
	cause error
}

func (f *fault) Error() string { return f.cause.Error() }
func (f *fault) Unwrap() error { return f.cause }

// unanswered is the error of a question to a store that gave no answer.
type unanswered struct {
	asked time.Time
	cause error
}

func (u *unanswered) Error() string { return u.cause.Error() }
func (u *unanswered) Unwrap() error { return u.cause }

// rest remembers that the bucket alone can't be asked.
func (f *faults) rest(at reservations.BucketName, noted fault) {
	f.alone.Change(at, func(known *fault) { *known = noted })
}

// lost notes that the store gave no answer to a question of the moment asked, and returns whether an outage began with
// it. A store that has answered another question since then is not away.
func (f *faults) lost(asked time.Time, cause error) (began bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked.Before(f.answered) {
		return false
	}
	f.noted = time.Now()
	if began = f.away == nil; began {
		f.away = cause
	}
	return began
}

// answeredSince says whether the store has answered a question of after the moment asked.
func (f *faults) answeredSince(asked time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return asked.Before(f.answered)
}

// resting is why a store is not asked that did not answer lately; nil if it may be asked.
func (f *faults) resting(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away != nil && now.Sub(f.noted) < reserveRest {
		return f.away
	}
	return nil
}

// find returns the fault of a bucket whose pause is not over.
func (f *faults) find(at reservations.BucketName, now time.Time) (fault, bool) {
	found := f.alone.Get(at)
	return found, now.Before(found.until)
}

// over notes that the bucket answers, and returns whether that ends an outage of the store.
func (f *faults) over(at reservations.BucketName) (back bool) {
	f.alone.Delete(at)
	f.mu.Lock()
	defer f.mu.Unlock()
	back = f.away != nil
	f.away, f.answered = nil, time.Now()
	f.release()
	return back
}

// admit returns nil if the caller may ask the store, and has to call lost and pass, or over, then. Otherwise it returns
// why the store is taken to be away.
func (f *faults) admit(ctx context.Context) error {
	f.mu.Lock()
	away, probe := f.away, f.probe
	if away != nil && probe == nil {
		f.probe = make(chan struct{})
	}
	f.mu.Unlock()
	if away == nil || probe == nil {
		return nil
	}
	patience := time.NewTimer(probePatience)
	defer patience.Stop()
	select {
	case <-probe:
	case <-patience.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// pass lets the next caller ask the store.
func (f *faults) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
}

// release ends the wait for the probe. It requires that mu is held.
func (f *faults) release() {
	if f.probe != nil {
		close(f.probe)
		f.probe = nil
	}
}
