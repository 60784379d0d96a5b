package tasks

import (
	"fmt"
	"strconv"
	"strings"
)

// BatchRef says which request of a batch file a task is. A task type whose payload has one makes TaskID the ID of the task, and its
// result goes where those of the batch are kept.
type BatchRef struct {
	// Batch is the ID of the batch.
	Batch string `json:"id"`
	// Line is that of the file, from 1.
	Line int `json:"line"`
	// Round is how often the request was put back after it had failed.
	Round int `json:"round,omitempty"`
}

// TaskID is the task's ID: the same request of the same round is enqueued once.
func (r BatchRef) TaskID() string { return fmt.Sprintf("%s-%d-%d", r.Batch, r.Line, r.Round) }

// ParseBatchRef reads what TaskID wrote. It is not ok for the ID of any other task.
func ParseBatchRef(id string) (ref BatchRef, ok bool) {
	rest, round, ok := cutLast(id)
	batch, line, more := cutLast(rest)
	ref = BatchRef{Batch: batch, Line: line, Round: round}
	return ref, ok && more && batch != "" && line > 0 && ref.TaskID() == id
}

func cutLast(id string) (before string, n int, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(id[i+1:])
	return id[:i], n, err == nil && n >= 0
}
