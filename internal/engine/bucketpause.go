package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Faulty returns why a new task must not ask the bucket now: the bucket alone can't be asked, and its pause is not
// over. It is nil for any other bucket. The error is a Stop.Cause. Promoted tasks ask in any case: the
// dispatcher promotes one after each pause, to find out whether the bucket answers.
func (s *Engine) Faulty(bucket string) error {
	if f, ok := s.faults.find(bucket, time.Now()); ok {
		return &f
	}
	return nil
}

// fail has nothing promoted for a bucket that could not be asked, for a time that grows: as long as the failure has
// lasted for the fleet, 1 to 10 seconds, and up to as much again. It returns that time. The process that first sees
// that a bucket alone can't be asked logs it, once.
func (s *Engine) fail(ctx context.Context, bucket string, cause error) time.Duration {
	if known, ok := errors.AsType[*fault](cause); ok {
		return max(0, time.Until(known.until))
	}
	f, alone := fault{until: time.Now().Add(pauseShortest), cause: cause}, isFault(cause)
	s.faults.note(bucket, f, alone)
	failure := waitlist.Failure{
		Away: !alone, Shortest: pauseShortest, Longest: pauseLongest,
		Random: rand.Float64(), //nolint:gosec // jitter needs no secrecy
	}
	pause, began, err := s.list.Fail(ctx, bucket, failure)
	if err != nil {
		s.config.Logger.DebugContext(ctx, "failure of a bucket not noted",
			slog.String("bucket", bucket), slog.Any("error", err))
		return time.Duration((1 + failure.Random) * float64(pauseShortest))
	}
	if began && alone {
		s.config.Logger.WarnContext(ctx, "a bucket can't be asked, its tasks wait",
			slog.String("bucket", bucket), slog.Any("error", cause))
	}
	f.until = time.Now().Add(pause)
	s.faults.note(bucket, f, alone)
	return pause
}

// isFault says whether a bucket could not be asked although the store answers.
func isFault(err error) bool { return errors.Is(err, reservations.ErrBucket) }

const (
	// pauseShortest and pauseLongest bound how long a bucket is left alone that could not be asked.
	pauseShortest = time.Second
	pauseLongest  = 10 * time.Second
)

// faults are the buckets that could not be asked, as far as this process has seen. The zero value is ready. Safe for
// concurrent use.
type faults struct {
	away  atomic.Bool // the store did not answer
	alone bounded.Map[string, fault]
}

// fault is that of a bucket that alone can't be asked. As an error it is why the bucket is not asked before the pause
// ends.
type fault struct {
	until time.Time // the end of the pause
	cause error
}

func (f *fault) Error() string { return f.cause.Error() }
func (f *fault) Unwrap() error { return f.cause }

// note remembers a fault, or that the store is away.
func (f *faults) note(bucket string, noted fault, alone bool) {
	if !alone {
		f.away.Store(true)
		return
	}
	f.alone.Change(bucket, func(known *fault) { *known = noted })
}

// find returns the fault of a bucket whose pause is not over.
func (f *faults) find(bucket string, now time.Time) (fault, bool) {
	found := f.alone.Get(bucket)
	return found, now.Before(found.until)
}

// over notes that the bucket answers, and says whether that shows that the store is back.
func (f *faults) over(bucket string) (back bool) {
	f.alone.Delete(bucket)
	return f.away.Swap(false)
}
