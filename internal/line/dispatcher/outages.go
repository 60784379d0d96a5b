package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// outages keep tasks from buckets, and from a store, that do not answer.
type outages struct {
	*shared

	faults faults
}

// Ask asks the bucket of a delivered task by ask, with the context early. Ctx is that of the delivery. While the store
// does not answer, only one task at a time asks; the others get its error, so that unlimited tasks find a free handler.
// A new task does not ask a bucket that alone can't be asked before its pause is over. Promoted tasks ask in any case:
// the dispatcher promotes one after each pause, to find out whether the bucket answers. The error is a Stop.Cause.
func (s *outages) Ask(
	ctx, early context.Context, c reservations.Charge, ask func(context.Context) error,
) error {
	at := c.Bucket()
	if f, ok := s.faults.find(at, time.Now()); ok && c.Held == "" {
		return &f
	}
	if err := s.faults.admit(early); err != nil {
		return err
	}
	asked := time.Now()
	err := ask(early)
	alone := isFault(err)
	switch {
	case err == nil:
		s.Answered(ctx, at)
	case reservations.IsPermanent(err), ctx.Err() != nil && !alone: // nothing was learned
		s.faults.pass()
	case alone:
		s.Answered(ctx, reservations.BucketName{})
	default:
		err = &unanswered{asked: asked, cause: err}
		s.lost(ctx, asked, err)
		s.faults.pass()
	}
	return err
}

// Answered says that the bucket answers; a zero name says that the store does. If that ends an outage that this
// process has seen, all tasks that wait for the store are due at once. Tasks of other processes are too. The pauses of
// buckets that alone can't be asked go on.
func (s *outages) Answered(ctx context.Context, at reservations.BucketName) {
	if s.faults.over(at) {
		s.log.InfoContext(ctx, "the store of the buckets answers again")
		s.after(ctx, "end of an outage not noted", s.list.Recover)
	}
}

// fail has nothing promoted for a bucket that could not be asked, for a time that grows: half as long as the failure
// has lasted for the fleet, 1 to 10 seconds, and up to as much again. It returns that time. The process that first sees
// that a bucket alone can't be asked logs it, once. A store that has answered meanwhile has no pause.
func (s *outages) fail(ctx context.Context, at reservations.BucketName, cause error) time.Duration {
	if known, ok := errors.AsType[*fault](cause); ok {
		return max(0, time.Until(known.until))
	}
	alone, asked := isFault(cause), time.Now()
	if question, ok := errors.AsType[*unanswered](cause); ok {
		asked = question.asked
	}
	if alone {
		s.faults.rest(at, fault{until: time.Now().Add(pauseShortest), cause: cause})
	} else {
		s.lost(ctx, asked, cause)
	}
	failure := waitlist.Failure{
		Away: !alone, Shortest: pauseShortest, Longest: pauseLongest,
		Random: rand.Float64(), //nolint:gosec // jitter needs no secrecy
	}
	pause, began, err := s.list.Fail(ctx, at.String(), failure)
	switch {
	case err != nil:
		s.log.DebugContext(ctx, "failure of a bucket not noted",
			slog.String("bucket", at.String()), slog.Any("error", err))
		return time.Duration((1 + failure.Random) * float64(pauseShortest))
	case alone:
		s.faults.rest(at, fault{until: time.Now().Add(pause), cause: cause})
		if began {
			s.log.WarnContext(ctx, "a bucket can't be asked, its tasks wait",
				slog.String("bucket", at.String()), slog.Any("error", cause))
		}
	case s.faults.answeredSince(asked): // so this pause came after the end of the others
		s.after(ctx, "end of an outage not noted", s.list.Recover)
		return 0
	}
	return pause
}

// lost notes that the store gave no answer to a question of the moment asked, and logs that an outage begins.
func (s *outages) lost(ctx context.Context, asked time.Time, cause error) {
	if s.faults.lost(asked, cause) {
		s.log.WarnContext(ctx, "the store of the buckets does not answer, tasks with a limit wait for it",
			slog.Any("error", cause))
	}
}

// isFault says whether a bucket could not be asked although the store answers.
func isFault(err error) bool { return errors.Is(err, bucket.ErrBucket) }
