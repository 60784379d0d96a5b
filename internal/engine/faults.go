package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Ask asks the bucket of a delivered task by ask, with the context early. Ctx is that of the delivery. While the store
// does not answer, only one task at a time asks; the others get its error, so that unlimited tasks find a free handler.
// A new task does not ask a bucket that alone can't be asked before its pause is over. Promoted tasks ask in any case:
// the dispatcher promotes one after each pause, to find out whether the bucket answers. The error is a Stop.Cause.
func (s *Engine) Ask(
	ctx, early context.Context, c reservations.Charge, ask func(context.Context) error,
) error {
	bucket := c.Bucket()
	if f, ok := s.faults.find(bucket, time.Now()); ok && c.Held == "" {
		return &f
	}
	if err := s.faults.admit(early); err != nil {
		return err
	}
	err := ask(early)
	alone := isFault(err)
	switch {
	case err == nil:
		s.Answered(ctx, bucket)
	case reservations.IsPermanent(err), ctx.Err() != nil && !alone: // nothing was learned
		s.faults.pass()
	case alone:
		s.Answered(ctx, "")
	default:
		s.note(ctx, bucket, fault{cause: err})
		s.faults.pass()
	}
	return err
}

// Answered says that the bucket answers; an empty name says that the store does. If that ends an outage that this
// process has seen, all tasks that wait for the store are due at once. Tasks of other processes are too. The pauses of
// buckets that alone can't be asked go on.
func (s *Engine) Answered(ctx context.Context, bucket string) {
	if s.faults.over(bucket) {
		s.log.InfoContext(ctx, "the store of the buckets answers again")
		s.after(ctx, "end of an outage not noted", s.list.Recover)
	}
}

// fail has nothing promoted for a bucket that could not be asked, for a time that grows: half as long as the failure
// has lasted for the fleet, 1 to 10 seconds, and up to as much again. It returns that time. The process that first sees
// that a bucket alone can't be asked logs it, once.
func (s *Engine) fail(ctx context.Context, bucket string, cause error) time.Duration {
	if known, ok := errors.AsType[*fault](cause); ok {
		return max(0, time.Until(known.until))
	}
	f, alone := fault{until: time.Now().Add(pauseShortest), cause: cause}, isFault(cause)
	s.note(ctx, bucket, f)
	failure := waitlist.Failure{
		Away: !alone, Shortest: pauseShortest, Longest: pauseLongest,
		Random: rand.Float64(), //nolint:gosec // jitter needs no secrecy
	}
	pause, began, err := s.list.Fail(ctx, bucket, failure)
	if err != nil {
		s.log.DebugContext(ctx, "failure of a bucket not noted",
			slog.String("bucket", bucket), slog.Any("error", err))
		return time.Duration((1 + failure.Random) * float64(pauseShortest))
	}
	if began && alone {
		s.log.WarnContext(ctx, "a bucket can't be asked, its tasks wait",
			slog.String("bucket", bucket), slog.Any("error", cause))
	}
	f.until = time.Now().Add(pause)
	s.note(ctx, bucket, f)
	return pause
}

// note remembers a fault, and logs that an outage of the store begins.
func (s *Engine) note(ctx context.Context, bucket string, f fault) {
	if s.faults.note(bucket, f) {
		s.log.WarnContext(ctx, "the store of the buckets does not answer, tasks with a limit wait for it",
			slog.Any("error", f.cause))
	}
}

// isFault says whether a bucket could not be asked although the store answers.
func isFault(err error) bool { return errors.Is(err, reservations.ErrBucket) }

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
	alone bounded.Map[string, fault]

	mu    sync.Mutex    // guards what is below
	away  error         // why the store did not answer; nil while it answers
	noted time.Time     // when it did not answer last
	probe chan struct{} // nil if no task asks a store that is away; closed by the answer
}

// fault is that of a bucket. As an error it is why a bucket that alone can't be asked is not asked before its pause
// ends.
type fault struct {
	until time.Time // the end of the pause
	cause error
}

func (f *fault) Error() string { return f.cause.Error() }
func (f *fault) Unwrap() error { return f.cause }

// note remembers a fault, and returns whether an outage of the store began with it.
func (f *faults) note(bucket string, noted fault) (began bool) {
	if isFault(noted.cause) {
		f.alone.Change(bucket, func(known *fault) { *known = noted })
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted = time.Now()
	if began = f.away == nil; began {
		f.away = noted.cause
	}
	return began
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
func (f *faults) find(bucket string, now time.Time) (fault, bool) {
	found := f.alone.Get(bucket)
	return found, now.Before(found.until)
}

// over notes that the bucket answers, and returns whether that ends an outage of the store.
func (f *faults) over(bucket string) (back bool) {
	f.alone.Delete(bucket)
	f.mu.Lock()
	defer f.mu.Unlock()
	back = f.away != nil
	f.away = nil
	f.answered()
	return back
}

// admit returns nil if the caller may ask the store, and has to call note and pass, or over, then. Otherwise it returns
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
	f.answered()
}

// answered ends the wait for the probe. It requires that mu is held.
func (f *faults) answered() {
	if f.probe != nil {
		close(f.probe)
		f.probe = nil
	}
}
