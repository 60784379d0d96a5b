package scheduler

import (
	"context"
	"testing"
	"time"
)

// Observe has f called after each look of the waker at the lines. Before Start only.
func (s *Scheduler) Observe(f func(woken []Task, moves int, err error)) {
	s.waker.observe = func(l look) { f(l.tasks, l.moves, l.err) }
}

// TakeAndDie takes the tasks that are due, as a waker does, and never wakes them. It returns how many.
func (s *Scheduler) TakeAndDie(ctx context.Context) (int, error) {
	taken, _, err := s.waker.lines.pop(ctx, "dead", s.waker.early, popMost, nil)
	return len(taken.all()), err
}

// Advancer is what looks for lines that are due too late, by a clock of the test's. Look says whether it looks again soon.
func (s *Scheduler) Advancer(t *testing.T, now func() time.Time) (look func() (soon bool)) {
	t.Helper()
	a := newAdvancer(s)
	a.now = now
	return func() bool { return a.look(t.Context()) == advanceSoon }
}

// GoOnDuty lets the scheduler's waker be the one on duty, without looking at the lines.
func (s *Scheduler) GoOnDuty(t *testing.T) {
	t.Helper()
	if err := s.lines.client.HSet(t.Context(), root+"waker", "id", s.waker.id, "until", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// SendMoves sends what lines were moved by.
func (s *Scheduler) SendMoves(t *testing.T) {
	t.Helper()
	if _, err := s.waker.sendMoves(t.Context()); err != nil {
		t.Fatal(err)
	}
}
