package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

const (
	// outageDelayMin and outageDelayMax bound how long a task waits until it asks again for a bucket that could not answer.
	outageDelayMin = time.Second
	outageDelayMax = 10 * time.Second
	// outageOver is how long after its last sign an outage is taken to be over.
	outageOver = 3 * outageDelayMax
	// netMargin is how much later than its time asynq itself delivers a waiting task, should no waker do so; a tenth of the wait
	// comes on top, for shifts. It leaves wakers room to be late, so that the net never competes with them.
	netMargin = 10 * time.Second
	// waitingText is how the text of each deferral begins.
	waitingText = "waiting for limit "
	// waitingUnlimited is how that of a task without a limit begins.
	waitingUnlimited = "waiting, refused by the provider: "
	// wholeSecond is what asynq may cut off a time.
	wholeSecond = time.Second
)

// DeferredError sends a task back to the queue until its time. It matches ErrDeferred, is no failure to IsFailure, and tells
// RetryDelay when asynq's own forwarder should deliver the task if nobody else has. Its text, which asynq's tools show beside the
// waiting task, tells a person why the task waits and until when.
type DeferredError struct {
	// Bucket is the name of the bucket that the task waits for.
	Bucket string
	// State is what the task comes back with.
	State reservations.State
	// Until is about when, on this machine's clock; the line may be moved meanwhile.
	Until time.Time
	// Delay is how long that is from the decision. Not negative.
	Delay time.Duration
	// Cause is why the bucket could not answer; nil where it did.
	Cause error
	// Refusal is why the provider refused the call of a task that had started; nil where it did not.
	Refusal error

	// unwatched says that Redis could not note the task's time: asynq's forwarder alone delivers it.
	unwatched bool
}

func (e *DeferredError) Error() string {
	return strings.ToValidUTF8(e.text(), "\uFFFD") // asynq can't store anything else, and the task would be stuck
}

func (e *DeferredError) text() string {
	when := fmt.Sprintf("until %s, %s from %s", clockText(e.Until), roundText(e.Delay), clockText(e.Until.Add(-e.Delay)))
	if e.Refusal != nil {
		return e.refusalText(when)
	}
	if e.Cause != nil {
		return fmt.Sprintf(waitingText+"%s (%s), which could not be asked: %s: %v", e.Bucket, e.State, when, e.Cause)
	}
	return fmt.Sprintf(waitingText+"%s (%s): %s", e.Bucket, e.State, when)
}

// Is makes the error match ErrDeferred and what its cause matches, but never what would have asynq archive or drop the task.
func (e *DeferredError) Is(target error) bool {
	if target == asynq.SkipRetry || target == asynq.RevokeTask {
		return false
	}
	return target == ErrDeferred || errors.Is(e.Cause, target) || errors.Is(e.Refusal, target)
}

func clockText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// roundText drops what nobody wants to read.
func roundText(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// IsFailure says whether a handler's error uses up a retry: all do but deferrals, also asynq.ErrLeaseExpired, a crash. It is
// for asynq.Config.IsFailure.
func IsFailure(err error) bool { return err != nil && !errors.Is(err, ErrDeferred) }

// RetryDelay is for asynq.Config.RetryDelayFunc. For a deferral it is when asynq's own forwarder delivers the task should no
// waker do so: 10 seconds and a tenth of the wait after its time. For a failure it is 2 seconds, doubled with each failure
// before (n of them) up to an hour, and drawn anew from the half to the one and a half of that, so that tasks which failed together do not return together.
func RetryDelay(n int, err error, _ *asynq.Task) time.Duration {
	return retryDelay(n, err, rand.Float64()) //nolint:gosec // jitter needs no secrecy
}

const (
	backoffMin = 2 * time.Second
	backoffMax = time.Hour
)

// retryDelay is RetryDelay with its random number, in [0, 1).
func retryDelay(n int, err error, random float64) time.Duration {
	if deferred, ok := errors.AsType[*DeferredError](err); ok {
		return deferred.net()
	}
	d := backoffMin
	for range n {
		if d = min(2*d, backoffMax); d == backoffMax {
			break
		}
	}
	return time.Duration(float64(d) * (0.5 + random))
}

// net is when the safety net catches the task. Without a waker it is the way back itself: as soon as asynq's whole seconds allow.
func (e *DeferredError) net() time.Duration {
	if e.unwatched {
		return e.Delay + wholeSecond
	}
	return netDelay(e.Delay)
}

// netDelay is when asynq itself delivers a task that is watched, counted as wait is.
func netDelay(wait time.Duration) time.Duration { return wait + netMargin + wait/10 }

// jitter is what is added to a task's time, never taken off: tasks with a time of their own are spread a little, those that
// were told to come and ask again widely. Random is in [0, 1).
func (c Config) jitter(s reservations.State, random float64) time.Duration {
	most := c.JitterRefused
	if s == reservations.StateReserved || s == reservations.StateLate || s == reservations.StateExpress {
		most = c.JitterReserved
	}
	return time.Duration(random * float64(most))
}

// outageDelay is how long a task waits when its bucket could not answer: as long as that has been so, within bounds, and up
// to as much again. Random is in [0, 1).
func outageDelay(lasted time.Duration, random float64) time.Duration {
	d := min(max(lasted, outageDelayMin), outageDelayMax)
	return d + time.Duration(random*float64(d))
}

// outage is how long the store of the buckets has not answered, as far as this process has seen.
type outage struct {
	mu    sync.Mutex // guards what is below
	since time.Time
	last  time.Time
}

// lasted notes one more call without an answer.
func (o *outage) lasted(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || now.Sub(o.last) > outageOver {
		o.since = now
	}
	o.last = now
	return now.Sub(o.since)
}

// over notes an answer, and says whether it ended an outage.
func (o *outage) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	ended := !o.since.IsZero()
	o.since = time.Time{}
	return ended
}

// Answered tells that the store of the buckets answers. Where it did not before, all tasks that wait for it are due at once,
// also those of other processes. It never blocks.
func (s *Scheduler) Answered() {
	if s.outage.over() {
		s.waker.release()
	}
}

// Defer sends the task back until it is due: it keeps the outcome's place, lets the task stand in the bucket's line, and returns the
// *DeferredError that the handler has to return to asynq; never nil. Others are the places that the task has with other buckets: they are
// kept beside. When Redis can't take the note, the task comes
// back by asynq's forwarder alone, to the second, and asks as new.
func (s *Scheduler) Defer(ctx context.Context, t Task, c reservations.Charge, o reservations.Outcome, others ...Held) error {
	heard := time.Now()
	s.Answered()
	jitter := s.config.jitter(o.State, rand.Float64()) //nolint:gosec // jitter needs no secrecy
	e := &DeferredError{Bucket: c.Bucket(), State: o.State, Delay: o.Wait() + jitter}
	e.Until = heard.Add(e.Delay)
	s.note(ctx, e, note{movement: movementOf(c.Bucket(), o, heard), entry: newEntry(t, c, o.Place(), jitter, e.Delay, heard, others...)})
	return e
}

// DeferOutage sends the task back when its bucket could not answer, for a time that grows with the outage: 1 to 10 seconds, and up
// to as much again so that tasks do not return together; or until the store answers again (Answered). The task keeps place, and the others. The answer is as for Defer, with cause in it;
// no retry is used up.
func (s *Scheduler) DeferOutage(ctx context.Context, t Task, c reservations.Charge, p reservations.Place, cause error, others ...Held) error {
	now := time.Now()
	if p.State == "" {
		p.State = reservations.StateNew
	}
	e := &DeferredError{Bucket: c.Bucket(), State: p.State, Cause: cause}
	e.Delay = outageDelay(s.outage.lasted(now), rand.Float64()) //nolint:gosec // jitter needs no secrecy
	e.Until = now.Add(e.Delay)
	s.note(ctx, e, outageNote(newEntry(t, c, p, 0, e.Delay, now, others...)))
	return e
}

func newEntry(t Task, c reservations.Charge, p reservations.Place, jitter, wait time.Duration, now time.Time, others ...Held) entry {
	return entry{
		task: t, due: p.Due.Add(jitter), wait: wait,
		kept: keptPlace{Place: p, Bucket: c.Bucket(), Tokens: c.Tokens, Since: now.UTC(), Others: others},
	}
}

// keep writes notes down, and tells the waker of a time that came forward.
func (s *Scheduler) keep(ctx context.Context, notes []note) ([]struct{}, error) {
	first, earlier, err := s.lines.recordAll(ctx, notes)
	if earlier {
		s.waker.bring(first)
	}
	return make([]struct{}, len(notes)), err
}

// note writes down when the task is due, together with what others have to note, or leaves in e that there is no note of it.
func (s *Scheduler) note(ctx context.Context, e *DeferredError, n note) {
	if _, err := s.notes.Ask(ctx, n); err != nil {
		e.unwatched = true
		s.config.Logger.Warn("the wait of a task could not be noted", slog.String("queue", n.entry.task.Queue),
			slog.String("task_id", n.entry.task.ID), slog.String("bucket", e.Bucket), slog.Any("error", err))
	}
}
