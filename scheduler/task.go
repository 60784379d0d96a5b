package scheduler

import (
	"fmt"
	"net/url"
	"strings"
)

// Task names one task of asynq's.
type Task struct {
	Queue string
	ID    string
}

// String is the task's name in Redis: queue/id. A slash in the name of the queue is escaped.
func (t Task) String() string { return url.PathEscape(t.Queue) + "/" + t.ID }

// parseTask reads what String wrote.
func parseTask(s string) (Task, error) {
	queue, id, ok := strings.Cut(s, "/")
	if !ok {
		return Task{}, fmt.Errorf("%q is no task: want queue/id", s)
	}
	queue, err := url.PathUnescape(queue)
	if err != nil {
		return Task{}, fmt.Errorf("%q is no task: %w", s, err)
	}
	return Task{Queue: queue, ID: id}, nil
}
