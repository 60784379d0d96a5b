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

// names are the names of tasks, as scripts have them.
func names(all []Task) []string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = t.String()
	}
	return texts
}

// named are the tasks of these names, without names of no task: something else has put them there.
func named(texts []string) (all []Task) {
	for _, text := range texts {
		if t, err := ParseTask(text); err == nil {
			all = append(all, t)
		}
	}
	return all
}
