package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/reservations"
)

// refusalsKept is how much longer than the wait refusals are remembered: those further apart are not counted together.
const refusalsKept = time.Hour

func (e *DeferredError) refusalText(when string) string {
	switch {
	case e.Bucket == "":
		return fmt.Sprintf(waitingUnlimited+"%s: %v", when, e.Refusal)
	case e.Cause != nil:
		return fmt.Sprintf(waitingText+"%s (%s), refused by the provider: %s: %v (the bucket could not be asked: %v)", e.Bucket, e.State, when, e.Refusal, e.Cause)
	default:
		return fmt.Sprintf(waitingText+"%s (%s), refused by the provider: %s: %v", e.Bucket, e.State, when, e.Refusal)
	}
}

// DeferRefused sends a task back that had started and was refused by its provider: it is due after d, as the first of its line.
// Blocked is the answer of the bucket to the block that the provider asked for, or zero where it could not be asked; then cause
// says why, and the task waits as for DeferOutage. Where the answer's Due says that a longer block is in force, the task is due then. Others are as for Defer. An
// unlimited task (the zero charge) stands in no line: asynq's forwarder brings it, to the second. The answer is as for Defer, with refusal in it.
func (s *Scheduler) DeferRefused(
	ctx context.Context, t Task, c reservations.Charge, d time.Duration, blocked reservations.Outcome, refusal, cause error,
	others ...Held,
) error {
	e := &DeferredError{Bucket: c.Bucket(), State: reservations.StateLate, Delay: max(0, d), Cause: cause, Refusal: refusal}
	now := time.Now()
	switch {
	case c.Limit == "":
		e.State, e.unwatched = reservations.StateNew, true
	case blocked.At.IsZero():
		e.Delay = outageDelay(s.outage.lasted(now), rand.Float64()) //nolint:gosec // jitter needs no secrecy
		place := reservations.Place{State: e.State, Generation: blocked.Generation, Shard: c.Shard}
		s.note(ctx, e, outageNote(newEntry(t, c, place, 0, e.Delay, now, others...)))
	default:
		s.Answered()
		blocked = AfterBlock(blocked, e.Delay)
		e.Delay = blocked.Wait()
		s.note(ctx, e, note{movement: movementOf(c.Bucket(), blocked, now), entry: newEntry(t, c, blocked.Place(), 0, e.Delay, now, others...)})
	}
	e.Until = now.Add(e.Delay)
	return e
}

// AfterBlock is the outcome of a task that comes back when a block ends, as the first: blocked is the bucket's answer to a block of d. Its
// Due, where it has one, is the end of a longer block.
func AfterBlock(blocked reservations.Outcome, d time.Duration) reservations.Outcome {
	if blocked.Speed > 0 { // the line's clock runs so much meanwhile
		d = time.Duration(float64(d) * blocked.Speed)
	}
	end := blocked.At.Add(d + blocked.Shift)
	if blocked.Due.Before(end) {
		blocked.Due = end
	}
	blocked.State = reservations.StateLate
	return blocked
}

// Refused counts that the provider refused a task, which comes back after d, and returns how often it did so in a row. A count is forgotten
// an hour after the task should have been back. On an error the count is 1.
func (s *Scheduler) Refused(ctx context.Context, t Task, d time.Duration) (int, error) {
	pipe := s.lines.client.TxPipeline()
	count := pipe.Incr(ctx, refusalsKey(t))
	pipe.PExpire(ctx, refusalsKey(t), max(0, d)+refusalsKept)
	if _, err := pipe.Exec(ctx); err != nil {
		return 1, fmt.Errorf("count the refusals of %s: %w", t, err)
	}
	return int(count.Val()), nil
}

// ForgetRefusals begins the count of Refused anew.
func (s *Scheduler) ForgetRefusals(ctx context.Context, t Task) error {
	if err := s.lines.client.Del(ctx, refusalsKey(t)).Err(); err != nil {
		return fmt.Errorf("forget the refusals of %s: %w", t, err)
	}
	return nil
}

func refusalsKey(t Task) string { return root + "refused:" + t.String() }
