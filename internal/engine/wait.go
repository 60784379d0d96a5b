package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Wait sends a task back to the queue because the bucket of c did not let it start: the task joins the bucket's
// waitlist, or goes back to its place there. It returns the *DeferredError that the handler has to return to asynq;
// never nil. Where Redis can't note it, asynq's forwarder brings the task back, as a new one.
func (s *Engine) Wait(
	ctx context.Context, t waitlist.Task, turn Turn, c reservations.Charge, o reservations.Outcome,
) error {
	entry := s.entry(ctx, t, turn, c)
	entry.Reserved = entry.Reserved || o.State == reservations.StateReserved
	e := &DeferredError{Bucket: c.Bucket(), State: o.State, Delay: o.Wait()}
	s.report.joins(c.Bucket(), o.Bucket)
	if joined := s.join(ctx, e, turn.info, entry); joined != nil {
		e.Delay = expectedWait(o, joined)
		e.Until = time.Now().Add(e.Delay)
	}
	return e
}

// expectedWait is about how long a task waits: until RetryAt, or until all that waits with it has come back. Joined
// is what the tasks of the waitlist charge together, the task included.
func expectedWait(o reservations.Outcome, joined reservations.Tokens) time.Duration {
	return max(o.Wait(), o.Bucket.Expect(o.At, joined).Sub(o.At))
}

// Return sends a task back that was delivered while it waits, without having been promoted: by asynq's net, an
// operator, or a worker whose clock is ahead. It keeps its place. The answer is as for Wait.
func (s *Engine) Return(turn Turn) error {
	now := time.Now()
	d := turn.info.left(now)
	return &DeferredError{Bucket: turn.Bucket, State: reservations.StateWaiting, Until: now.Add(d), Delay: d}
}

// WaitStore sends a task back because the bucket of c could not be asked. Nothing is promoted there for a time that
// grows with the outage, 1 to 10 seconds and up to as much again. If the store was away, the pause also ends as soon
// as the store answers (Answered). No retry is used. The answer is as for Wait, with cause in it.
func (s *Engine) WaitStore(ctx context.Context, t waitlist.Task, turn Turn, c reservations.Charge, cause error) error {
	bucket := c.Bucket()
	e := &DeferredError{Bucket: bucket, State: reservations.StateWaiting, Cause: cause}
	turn.info.Why = WhyStore
	e.Delay = s.fail(ctx, bucket, cause)
	s.join(ctx, e, turn.info, s.entry(ctx, t, turn, c))
	return e
}

// Answered says that the bucket answers; an empty name says that the store does. If that ends an outage that this
// process has seen, all tasks that wait for the store are due at once. Tasks of other processes are too. The pauses of
// buckets that alone can't be asked go on.
func (s *Engine) Answered(ctx context.Context, bucket string) {
	if s.faults.over(bucket) {
		s.after(ctx, "end of an outage not noted", s.list.Recover)
	}
}

// after does in the background what belongs to tasks that were seen to already. A failure is logged at debug level:
// nets, refill and later looks mend it.
func (s *Engine) after(
	ctx context.Context, failed string, do func(context.Context) error, attrs ...slog.Attr,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AfterTimeout)
	s.background.Go(func() {
		defer cancel()
		if err := do(ctx); err != nil {
			s.config.Logger.LogAttrs(ctx, slog.LevelDebug, failed, append(attrs, slog.Any("error", err))...)
		}
	})
}

// entry is the task as it waits for the bucket of c. Tasks of one tenant are a flow of the provider's waitlist unless
// their charge names another one.
func (s *Engine) entry(ctx context.Context, t waitlist.Task, turn Turn, c reservations.Charge) waitlist.Entry {
	e := waitlist.Entry{
		Task: t, Bucket: c.Bucket(), Flow: c.Flow, Tokens: c.Tokens, Urgent: c.Urgent, Arrived: turn.At,
		Reserved: turn.Holds(c) == reservations.StateReserved,
	}
	if e.Flow == "" && len(turn.Charges) > 0 && turn.Charges[0].Limit != c.Limit {
		e.Flow = turn.Charges[0].Bucket()
	}
	if s.limiter == nil {
		return e
	}
	limit, err := s.limiter.LimitFor(ctx, c)
	if err != nil {
		return e // the limit has gone meanwhile; the next delivery says so
	}
	e.Tokens = tokensOf(limit, c)
	class, weight := class(limit, c)
	rules := limit.Rules()
	seconds := rules.Seconds(rules.Vector(c.Tokens))
	e.Class, e.Turn, e.Cost = class, seconds/weight, seconds/Weight(limit, e.Flow)
	return e
}

// join lets the task wait, together with the tasks of other callers. It returns what the tasks of the waitlist
// charge together; nil where Redis could not store the wait.
func (s *Engine) join(
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
		s.config.Logger.WarnContext(ctx, "the wait of a task could not be stored", slog.String("queue", entry.Queue),
			slog.String("task_id", entry.ID), slog.String("bucket", entry.Bucket), slog.Any("error", err))
		return nil
	}
	return joined[0]
}

// joinAll makes one call for entries of several callers. The answers of their buckets go first: the dispatcher plans
// with them.
func (s *Engine) joinAll(ctx context.Context, _ struct{}, entries []waitlist.Entry) ([]reservations.Tokens, error) {
	if err := s.report.flush(ctx); err != nil {
		return nil, fmt.Errorf("report before joining: %w", err)
	}
	sums, err := s.list.Join(ctx, entries)
	if err != nil {
		return nil, fmt.Errorf("join the waitlists: %w", err)
	}
	joined := make([]reservations.Tokens, len(entries))
	for i, e := range entries {
		joined[i] = reservations.Tokens(sums[e.Bucket])
	}
	return joined, nil
}

// Begun says that a task started which had waited: it leaves the waitlists. The claims have what its buckets answered
// to the starts.
func (s *Engine) Begun(t waitlist.Task, turn Turn, claims reservations.Claims) {
	for _, c := range claims {
		if bucket := c.Charge.Bucket(); turn.State != waitlist.StateNew || turn.others(bucket) {
			s.report.answer(bucket, c.Outcome.Bucket, false)
		}
	}
	if turn.State != waitlist.StateNew {
		s.report.began(t)
	}
}

// Changed says that a bucket's answer may let waiting tasks start earlier or later than expected. Such an answer is
// above all one to a settlement, a block, or a sync. It never blocks: the newest answer of each bucket is sent within
// 30 ms. The zero Outcome is ignored.
func (s *Engine) Changed(bucket string, o reservations.Outcome) {
	s.report.answer(bucket, o.Bucket, true)
}

// WaitFirst sends a task back whose buckets let it start, and which does not start after all: its worker stops. It
// goes back to its place in the waitlist of c, or is the first there. The answer is as for Wait.
func (s *Engine) WaitFirst(ctx context.Context, t waitlist.Task, turn Turn, c reservations.Charge) error {
	e := &DeferredError{Bucket: c.Bucket(), State: reservations.StateWaiting}
	entry := s.entry(ctx, t, turn, c)
	entry.Front = true
	s.join(ctx, e, turn.info, entry)
	return e
}
