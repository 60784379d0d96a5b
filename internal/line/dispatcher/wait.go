package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/coalesce"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Stop is why a delivered task does not run now. The fields that are not about it are zero.
type Stop struct {
	// Charge is that of the bucket that the task waits for. A task without one, or with Alone, is in no waitlist: asynq
	// delivers it after After, to the second.
	Charge reservations.Charge
	Alone  bool
	// Outcome is the answer of the bucket, and Cause why it could not be asked.
	Outcome reservations.Outcome
	Cause   error
	// Refusal is why the provider refused the call of a task that had started.
	Refusal error
	// First puts the task before the tasks that wait for the bucket, if it has no place there.
	First bool
	// Kept says that the task is in its place in the waitlist.
	Kept bool
	// Missing is what this worker lacks and another worker may have.
	Missing string
	// After is how long the task waits if no bucket says so.
	After time.Duration
}

// Delay is about how long the task waits, as far as that is known.
func (s Stop) Delay() time.Duration { return max(s.After, s.Outcome.Wait()) }

// waiter lets tasks join waitlists, and leave them as they start.
type waiter struct {
	*shared
	*outages

	joins coalesce.Group[struct{}, waitlist.Entry, reservations.Tokens]
}

func newWaiter(s *shared, away *outages) *waiter {
	w := &waiter{shared: s, outages: away}
	w.joins.Call = w.joinAll
	return w
}

// Wait sends a task back to the queue: it joins the waitlist of its bucket, or goes back to its place there. It returns
// the error that the handler has to return to asynq; never nil. Where Redis can't store the wait, asynq's forwarder
// delivers the task, as a new one. No retry is used.
//
// If the bucket could not be asked, nothing is promoted there for a time that grows with the outage. The time is 1 to
// 10 seconds, and up to as much again. If the store was away, the pause also ends as soon as the store answers
// (Answered).
func (s *waiter) Wait(ctx context.Context, t waitlist.Task, turn Turn, stop Stop) *DeferredError {
	c, o := stop.Charge, stop.Outcome
	e := &DeferredError{
		Bucket: c.Bucket().String(), State: bucket.StateWaiting, Delay: stop.Delay(), Cause: stop.Cause,
		Refusal: stop.Refusal, Missing: stop.Missing,
	}
	if stop.Alone || c.Limit == "" {
		e.Bucket, e.unwatched = "", true
	}
	if stop.Kept || e.unwatched {
		e.Until = time.Now().Add(e.Delay)
		return e
	}
	entry := s.entry(ctx, t, turn, c)
	entry.Front = stop.First
	if stop.Refusal == nil && o.State != "" {
		e.State = o.State
		entry.Reserved = entry.Reserved || o.State == bucket.StateReserved
	}
	if stop.Cause != nil && o.At.IsZero() {
		turn.info.Why = WhyStore
		e.Delay = max(e.Delay, s.fail(ctx, c.Bucket(), stop.Cause))
	}
	if stop.Refusal != nil {
		turn.info.Why = WhyProvider
	}
	s.report.joins(c.Bucket(), o.Bucket)
	if joined := s.join(ctx, e, turn.info, entry); joined != nil && !stop.First {
		e.Delay = max(e.Delay, expectedWait(o, joined))
		e.Until = time.Now().Add(e.Delay)
	}
	return e
}

// expectedWait is about how long a task waits: until RetryAt, or until all that waits with it has come back. Joined
// is what the tasks of the waitlist charge together, the task included.
func expectedWait(o reservations.Outcome, joined reservations.Tokens) time.Duration {
	return max(o.Wait(), o.Bucket.Expect(o.At, joined).Sub(o.At))
}

// entry is the task as it waits for the bucket of c.
func (s *waiter) entry(ctx context.Context, t waitlist.Task, turn Turn, c reservations.Charge) waitlist.Entry {
	e := waitlist.Entry{
		Task: t, Bucket: c.Bucket().String(), Tokens: c.Tokens, Urgent: c.Urgent,
		Reserved: turn.Holds(c) == bucket.StateReserved,
	}
	if s.limiter == nil {
		return e
	}
	limit, err := inside.Of(s.limiter).LimitFor(ctx, c)
	if err != nil {
		return e // the limit has gone meanwhile; the next delivery says so
	}
	e.Tokens = tokensOf(limit, c)
	e.Turns = class.TurnsOf(limit, turn.Charges, c)
	return e
}

// join lets the task wait, together with the tasks of other callers. It returns what the tasks of the waitlist
// charge together; nil where Redis could not store the wait.
func (s *waiter) join(
	ctx context.Context, e *DeferredError, info WaitInfo, entry waitlist.Entry,
) reservations.Tokens {
	now := time.Now()
	e.Until = now.Add(e.Delay)
	if info.Since == 0 {
		info.Since = now.UnixMilli()
	}
	info.Until = e.Until.UnixMilli()
	entry.Keep = e.Delay
	entry.Info = info.encode()
	joined, err := s.joins.Do(ctx, struct{}{}, entry)
	if err != nil {
		e.unwatched = true
		s.log.WarnContext(ctx, "the wait of a task could not be stored", slog.String("queue", entry.Queue),
			slog.String("task_id", entry.ID), slog.String("bucket", entry.Bucket), slog.Any("error", err))
		return nil
	}
	return joined[0]
}

// joinAll makes one call for entries of several callers, with what is to be reported before: the dispatcher
// plans with it. It has asynq deliver the tasks that need no dispatcher.
func (s *waiter) joinAll(ctx context.Context, _ struct{}, entries []waitlist.Entry) ([]reservations.Tokens, error) {
	var joined waitlist.Joined
	err := s.report.with(ctx, func(first waitlist.Reported) (err error) {
		joined, err = s.list.Join(ctx, first, entries...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("join the waitlists: %w", err)
	}
	if err := s.wake(ctx, joined.Promoted); err != nil {
		s.log.DebugContext(ctx, "promoted tasks are delivered some seconds late", slog.Any("error", err))
	}
	sums := make([]reservations.Tokens, len(entries))
	for i, e := range entries {
		sums[i] = reservations.Tokens(joined.Sums[e.Bucket])
	}
	return sums, nil
}

// wake has asynq deliver tasks that were promoted when they joined. A task for which that fails has not begun in time:
// the dispatcher promotes it again.
func (s *waiter) wake(ctx context.Context, promoted []waitlist.Task) error {
	if len(promoted) > 0 && s.Promoted != nil {
		s.Promoted(promoted)
	}
	var faults []error
	for _, tasks := range grouped(promoted, func(t waitlist.Task) string { return t.Queue }) {
		ids := make([]string, len(tasks))
		for i, t := range tasks {
			ids[i] = t.ID
		}
		_, err := s.queues.Wake(ctx, tasks[0].Queue, ids, 0)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Begun says that a task started which had waited: it leaves the waitlists. Start has what its buckets answered.
func (s *waiter) Begun(t waitlist.Task, turn Turn, start Start) {
	outcomes := start.Outcomes()
	for i, c := range start.Charges() {
		if at := c.Bucket(); turn.State != waitlist.StateNew || turn.others(at) {
			// A promoted task counts as a running call until it is known to have begun. A slot that became free meanwhile
			// needs another look: no refill plans one.
			b := outcomes[i].Bucket
			s.report.answer(at, b, b.InFlight())
		}
	}
	if turn.State != waitlist.StateNew {
		s.report.began(t)
	}
}
