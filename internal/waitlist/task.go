package waitlist

import (
	"fmt"
	"net/url"
	"strings"
)

// Task names one task of asynq.
type Task struct {
	Queue string
	ID    string
}

// String is the name of the task in Redis: queue/id, with the queue escaped so that it contains no slash.
func (t Task) String() string { return url.PathEscape(t.Queue) + "/" + t.ID }

// MarshalBinary makes the task an argument of a script, by its name.
func (t Task) MarshalBinary() ([]byte, error) { return []byte(t.String()), nil }

// ParseTask parses the result of String.
func ParseTask(s string) (Task, error) {
	queue, id, ok := strings.Cut(s, "/")
	if !ok {
		return Task{}, fmt.Errorf("%q is not a task: want queue/id", s)
	}
	queue, err := url.PathUnescape(queue)
	if err != nil {
		return Task{}, fmt.Errorf("%q is not a task: %w", s, err)
	}
	return Task{Queue: queue, ID: id}, nil
}
