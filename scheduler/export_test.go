package scheduler

import "github.com/headway-go/headway/internal/waitlist"

// Observe calls f with the tasks that the dispatcher promotes, before asynq gets them. Call it before Start.
func (s *Scheduler) Observe(f func([]Task)) {
	s.engine.Promoted = func(promoted []waitlist.Task) {
		tasks := make([]Task, len(promoted))
		for i, t := range promoted {
			tasks[i] = Task(t)
		}
		f(tasks)
	}
}
