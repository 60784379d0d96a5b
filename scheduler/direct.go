package scheduler

import (
	"context"

	"github.com/headway-go/headway/reservations"
)

// Enter makes the Scheduler a reservations.Waitlist: after limiter.WaitIn(scheduler), callers of limiter.Wait and
// limiter.Do wait in line with tasks. A caller has a place among the tasks of its bucket, by the same order. The
// dispatcher on duty calls it when its turn has come, so a scheduler has to be started somewhere in the fleet. This
// one need not be started, but has to be stopped.
//
// If the process of a caller is killed, its sign of life expires within five seconds. The caller then leaves its
// waitlists as soon as it would be promoted or is in sight of its turn. Until then the tokens of its turn are not
// used. If Redis does not answer, a new caller waits by RetryAt without a place, and a caller that has a place waits
// for Redis.
func (s *Scheduler) Enter(ctx context.Context, claims reservations.Claims) reservations.Place {
	return s.engine.Enter(ctx, claims)
}

// Changed makes the Scheduler a reservations.Waitlist. It passes on an answer of a bucket that may let waiting tasks
// start earlier or later than expected. Settlements, blocks and syncs have such answers. It never blocks: the newest
// answer of each bucket is sent within 30 ms. The zero Outcome is ignored.
func (s *Scheduler) Changed(bucket string, o reservations.Outcome) { s.engine.Changed(bucket, o) }
