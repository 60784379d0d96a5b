package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// refusalsKept is how much longer than the wait refusals are remembered: refusals further apart are not counted
// together.
const refusalsKept = time.Hour

func (e *DeferredError) refusalText(when string) string {
	switch {
	case e.Bucket == "":
		return fmt.Sprintf(waitingUnlimited+"%s: %v", when, e.Refusal)
	case e.Cause != nil:
		return fmt.Sprintf(waitingText+"%s (%s), refused by the provider: %s: %v (the bucket could not be asked: %v)",
			e.Bucket, e.State, when, e.Refusal, e.Cause)
	default:
		return fmt.Sprintf(waitingText+"%s (%s), refused by the provider: %s: %v", e.Bucket, e.State, when, e.Refusal)
	}
}

// WaitRefused sends a task back that had started and was refused by its provider: it waits for the bucket of c,
// before all others, until the block in force ends. Blocked is the answer of the bucket to the block that the
// provider asked for; where the bucket could not be asked, it is zero, cause says why, and the task waits for d. An
// unlimited task (the zero charge) is in no waitlist: asynq's forwarder delivers it after d, to the second. The
// answer is as for Wait, with refusal in it.
func (s *Engine) WaitRefused(
	ctx context.Context, t waitlist.Task, c reservations.Charge, d time.Duration, blocked reservations.Outcome,
	refusal, cause error,
) error {
	e := &DeferredError{
		Bucket: c.Bucket(), State: reservations.StateWaiting, Delay: max(0, d), Cause: cause, Refusal: refusal,
	}
	if !blocked.At.IsZero() {
		e.Delay = blocked.Wait()
	}
	if c.Limit == "" {
		e.Until, e.unwatched = time.Now().Add(e.Delay), true
		return e
	}
	s.report.joins(c.Bucket(), blocked.Bucket)
	entry := s.entry(ctx, t, Turn{}, c)
	entry.Front = true
	s.join(ctx, e, WaitInfo{Why: WhyProvider}, entry)
	if blocked.At.IsZero() {
		s.fail(ctx, c.Bucket(), cause)
	}
	return e
}

// Refused counts that the provider refused a task, which asks for a block of d. It returns how often the provider did
// so in a row, and for how long the task's refusals asked before. Both are forgotten an hour after the task should
// have been back. On an error the count is 1.
func (s *Engine) Refused(
	ctx context.Context, t waitlist.Task, d time.Duration,
) (times int, before time.Duration, err error) {
	d = max(0, d).Truncate(time.Millisecond)
	pipe := s.redis.TxPipeline()
	count := pipe.HIncrBy(ctx, refusalsKey(t), refusalsTimes, 1)
	sum := pipe.HIncrBy(ctx, refusalsKey(t), refusalsBlocked, d.Milliseconds())
	pipe.PExpire(ctx, refusalsKey(t), d+refusalsKept)
	if _, err := pipe.Exec(ctx); err != nil {
		return 1, 0, fmt.Errorf("count the refusals of %s: %w", t, err)
	}
	return int(count.Val()), time.Duration(sum.Val())*time.Millisecond - d, nil
}

// ForgetRefusals sets the count of Refused back to zero. What the task's refusals asked for stays.
func (s *Engine) ForgetRefusals(ctx context.Context, t waitlist.Task) error {
	if err := s.redis.HDel(ctx, refusalsKey(t), refusalsTimes).Err(); err != nil {
		return fmt.Errorf("forget the refusals of %s: %w", t, err)
	}
	return nil
}

// Refusals is the count of Refused; zero where there is none.
func (s *Engine) Refusals(ctx context.Context, t waitlist.Task) int {
	n, _ := s.redis.HGet(ctx, refusalsKey(t), refusalsTimes).Int() // for people alone
	return n
}

// The fields of what is kept of a task's refusals: how many in a row, and milliseconds.
const (
	refusalsTimes   = "times"
	refusalsBlocked = "blocked"
)

func refusalsKey(t waitlist.Task) string { return "headway:{wait}:refused:" + t.String() }
