package dispatcher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/envelope"
)

const (
	// netMargin is how much later than expected asynq itself delivers a waiting task, should no dispatcher promote it;
	// a tenth of the wait comes on top. Every worker can dispatch, so the net hardly ever delivers.
	netMargin = 2 * time.Minute
	// wholeSecond is what asynq may cut off a time.
	wholeSecond = time.Second
)

var (
	// ErrDeferred is matched by the error of a task that waits: a *DeferredError.
	ErrDeferred = errors.New("scheduler: deferred")
	// ErrStopped is matched by the Wait of a direct caller whose dispatcher was stopped.
	ErrStopped = errors.New("scheduler: stopped")
)

// DeferredError sends a task back to the queue until its time: its delivery ends with Snooze. It matches ErrDeferred,
// and is no failure to IsFailure. Its text, which asynq's tools show beside the waiting task, says why the task waits
// and until when.
type DeferredError struct {
	// Bucket is the name of the bucket that the task waits for.
	Bucket string
	// State is the bucket's answer.
	State string
	// Until is about when the task is expected to start, on this machine's clock.
	Until time.Time
	// Delay is how long that is from the decision. Not negative.
	Delay time.Duration
	// Cause is why the bucket could not answer; nil where it did.
	Cause error
	// Refusal is why the provider refused the call of a task that had started; nil where it did not.
	Refusal error

	// Missing is what the worker lacks that returned the task; empty for other tasks.
	Missing string

	// unwatched says that the task is in no waitlist: asynq's forwarder alone delivers the task.
	unwatched bool
}

func (e *DeferredError) Error() string {
	return strings.ToValidUTF8(e.text(), "\uFFFD") // asynq can't store anything else, and the task would be stuck
}

func (e *DeferredError) text() string {
	what, why := fmt.Sprintf("waiting for limit %s (%s)", e.Bucket, e.State), ""
	switch {
	case e.Missing != "":
		what, why = "waiting for another worker", ": "+e.Missing
	case e.Refusal != nil && e.Bucket == "":
		what, why = "waiting, refused by the provider", fmt.Sprintf(": %v", e.Refusal)
	case e.Refusal != nil:
		what, why = what+", refused by the provider", fmt.Sprintf(": %v", e.Refusal)
		if e.Cause != nil {
			why += fmt.Sprintf(" (the bucket could not be asked: %v)", e.Cause)
		}
	case e.Cause != nil:
		what, why = what+", which could not be asked", fmt.Sprintf(": %v", e.Cause)
	}
	return fmt.Sprintf("%s: until %s, %s from %s%s",
		what, envelope.ClockText(e.Until), RoundText(e.Delay), envelope.ClockText(e.Until.Add(-e.Delay)), why)
}

// WaitWorker is what a handler returns for a task that this worker can't serve and another worker may: asynq delivers
// it again after d, to the second. No retry is used. Missing says what this worker lacks.
func WaitWorker(missing string, d time.Duration) error {
	return &DeferredError{
		State: bucket.StateWaiting, Delay: d, Until: time.Now().Add(d), Missing: missing, unwatched: true,
	}
}

// Is makes the error match ErrDeferred and what its cause matches, but never what would have asynq archive or drop
// the task.
func (e *DeferredError) Is(target error) bool {
	if target == asynq.SkipRetry || target == asynq.RevokeTask {
		return false
	}
	return target == ErrDeferred || errors.Is(e.Cause, target) || errors.Is(e.Refusal, target)
}

// RoundText drops digits that no reader needs.
func RoundText(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// IsFailure says whether a handler's error uses up a retry: all do but deferrals, also asynq.ErrLeaseExpired, a
// crash. It is for asynq.Config.IsFailure.
func IsFailure(err error) bool { return err != nil && !errors.Is(err, ErrDeferred) }

// Snooze is how the delivery of the task ends. If no dispatcher promotes the task, asynq's own forwarder delivers it:
// two minutes and a tenth of the wait after its time. Up to ten seconds are added, so that tasks do not return
// together. A task that is in no waitlist is back as soon as asynq's whole seconds allow. One with StartBy is back
// within a second after that time, to end as expired.
func (e *DeferredError) Snooze(t *asynq.Task) asynqdb.Snooze {
	now, text := time.Now(), e.Error()
	delay := beforeExpiry(e.net(rand.Float64()), t, now) //nolint:gosec // jitter needs no secrecy
	note := asynqdb.NewNote(WhyLimit, "", text)
	switch {
	case e.Missing != "":
		note.Reason, note.Cause = WhyWorker, e.Missing
	case e.Refusal != nil:
		note.Reason, note.Cause = WhyProvider, e.Refusal.Error()
	case e.Cause != nil:
		note.Reason, note.Cause = WhyStore, e.Cause.Error()
	}
	return asynqdb.Snooze{Until: now.Add(delay), Note: note}
}

// RetryDelay is for asynq.Config.RetryDelayFunc: 2 seconds, doubled with each failure before (n of them) up to an hour.
// Each delay is then drawn at random from the half to the one and a half of that. A task with StartBy is back within a
// second after that time, to end as expired.
func RetryDelay(n int, _ error, t *asynq.Task) time.Duration {
	delay := retryDelay(n, rand.Float64()) //nolint:gosec // jitter needs no secrecy
	return beforeExpiry(delay, t, time.Now())
}

const (
	backoffMin = 2 * time.Second
	backoffMax = time.Hour
	netJitter  = 10 * time.Second
)

// retryDelay is RetryDelay with its random number, in [0, 1).
func retryDelay(n int, random float64) time.Duration {
	d := backoffMin
	for range n {
		if d = min(2*d, backoffMax); d == backoffMax {
			break
		}
	}
	return time.Duration(float64(d) * (0.5 + random))
}

// net is when asynq's forwarder delivers the task. For a task that is not in a waitlist it is the way back itself:
// as soon as asynq's whole seconds allow. Random is in [0, 1).
func (e *DeferredError) net(random float64) time.Duration {
	if e.unwatched {
		return e.Delay + wholeSecond
	}
	return netDelay(e.Delay, random)
}

// netDelay is when asynq itself delivers a task that waits in a waitlist, counted as wait is. Random is in [0, 1).
func netDelay(wait time.Duration, random float64) time.Duration {
	return wait + netMargin + wait/10 + time.Duration(random*float64(netJitter))
}

// beforeExpiry is the delay of a net, cut so that a worker gets the task as soon as it has expired.
func beforeExpiry(delay time.Duration, t *asynq.Task, now time.Time) time.Duration {
	if t == nil {
		return delay
	}
	by := envelope.StartBy(t)
	if by.IsZero() {
		return delay
	}
	return min(delay, max(0, by.Sub(now))+wholeSecond)
}
