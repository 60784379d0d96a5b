package scheduler

import "github.com/headway-go/headway/internal/line/waitlist"

// Observe calls f with the tasks that the dispatcher promotes, before asynq gets them. Call it before Start.
func (s *Scheduler) Observe(f func([]waitlist.Task)) { s.dispatcher.Promoted = f }
