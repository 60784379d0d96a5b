package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

// faultyError is why a bucket is not asked: a moment ago it could not be asked, and the store answered.
type faultyError struct {
	left  time.Duration // of the pause
	cause error
}

func (e *faultyError) Error() string { return e.cause.Error() }

func (e *faultyError) Unwrap() error { return e.cause }

// Faulty returns why a new task must not ask the bucket now: the bucket alone can't be asked, and its pause is not
// over. It is nil for any other bucket. WaitStore takes the error as the cause. Promoted tasks ask in any case: the
// dispatcher promotes one after each pause, to find out whether the bucket answers.
func (s *Scheduler) Faulty(bucket string) error {
	if f, ok := s.faults.find(bucket, time.Now()); ok {
		return &faultyError{left: time.Until(f.until), cause: f.cause}
	}
	return nil
}

// fault has nothing promoted for a bucket that alone can't be asked, for a time that grows: as long as the fault has
// lasted for the fleet, 1 to 10 seconds, and up to as much again. It returns that time. The process that sees the fault
// first logs it, once.
func (s *Scheduler) fault(ctx context.Context, bucket string, cause error) time.Duration {
	if known, ok := errors.AsType[*faultyError](cause); ok {
		return known.left
	}
	random := rand.Float64() //nolint:gosec // jitter needs no secrecy
	s.faults.note(bucket, fault{until: time.Now().Add(outageDelayMin), cause: cause})
	pause, began, err := s.list.Fault(ctx, bucket, outageDelayMin, outageDelayMax, random)
	if err != nil {
		s.config.Logger.DebugContext(ctx, "fault of a bucket not noted",
			slog.String("bucket", bucket), slog.Any("error", err))
		return outageDelay(0, random)
	}
	if began {
		s.config.Logger.WarnContext(ctx, "a bucket can't be asked, its tasks wait",
			slog.String("bucket", bucket), slog.Any("error", cause))
	}
	s.faults.note(bucket, fault{until: time.Now().Add(pause), cause: cause})
	return pause
}

// isFault says whether a bucket could not be asked although the store answers.
func isFault(err error) bool { return errors.Is(err, reservations.ErrBucket) }

// faults are the buckets that alone could not be asked, as far as this process has seen. The zero value is ready. Safe
// for concurrent use.
type faults struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]fault
}

type fault struct {
	until time.Time // the end of the pause
	cause error
}

// note remembers a fault until its pause ends.
func (f *faults) note(bucket string, noted fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.buckets) >= outagesMost {
		clear(f.buckets)
	}
	if f.buckets == nil {
		f.buckets = map[string]fault{}
	}
	f.buckets[bucket] = noted
}

// find returns the fault of a bucket whose pause is not over.
func (f *faults) find(bucket string, now time.Time) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.buckets[bucket]
	if ok && !now.Before(found.until) {
		delete(f.buckets, bucket)
		ok = false
	}
	return found, ok
}

// over notes that the bucket answers.
func (f *faults) over(bucket string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.buckets, bucket)
}
