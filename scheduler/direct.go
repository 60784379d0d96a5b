package scheduler

import "github.com/headway-go/headway/internal/inside"

// TakeCallers lets callers of the limiter's Wait and Do wait in line with tasks from now on: call it before the first
// of them. A caller has a place among the tasks of its bucket, by the same order. The dispatcher on duty calls it when
// its turn has come, so a scheduler has to be started somewhere in the fleet. This one need not be started, but has to
// be stopped. Without a limiter it does nothing.
//
// If the process of a caller is killed, its sign of life expires within five seconds. The caller then leaves its
// waitlists as soon as it would be promoted or is in sight of its turn. Until then the tokens of its turn are not
// used. If Redis does not answer, a new caller waits by RetryAt without a place, and a caller that has a place waits
// for Redis.
func (s *Scheduler) TakeCallers() {
	if s.limiter != nil {
		inside.Of(s.limiter).WaitIn(s.dispatcher)
	}
}
