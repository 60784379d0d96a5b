package scheduler

import "context"

// Observe has f called after each look of the waker at the lines. Before Start only.
func (s *Scheduler) Observe(f func(woken []Task, moves int, err error)) {
	s.waker.observe = func(l look) { f(l.tasks, l.moves, l.err) }
}

// TakeAndDie takes the tasks that are due, as a waker does, and never wakes them. It returns how many.
func (s *Scheduler) TakeAndDie(ctx context.Context) (int, error) {
	taken, _, err := s.waker.lines.pop(ctx, "dead", s.waker.early, popMost, nil)
	return len(taken.all()), err
}
