package scheduler

import "github.com/headway-go/headway/internal/waitlist"

// Task names one task of asynq's.
type Task struct {
	Queue string
	ID    string
}

// String is the task's name: queue/id. A slash in the name of the queue is escaped.
func (t Task) String() string { return waitlist.Task(t).String() }
