// Package batchref names the requests of batch files in the IDs of their tasks.
package batchref

import (
	"fmt"
	"strconv"
	"strings"
)

// Ref names the request of a batch file that a task runs. A task type whose payload has a Ref uses TaskID as
// the ID of its task. The result of the task is stored with the results of the batch.
type Ref struct {
	// Batch is the ID of the batch.
	Batch string `json:"id"`
	// Line is the line of the file, from 1.
	Line int `json:"line"`
	// Round counts how often the request was put back after a failure.
	Round int `json:"round,omitempty"`
}

// TaskID returns the task's ID. The same request of the same round is enqueued once.
func (r Ref) TaskID() string { return fmt.Sprintf("%s-%d-%d", r.Batch, r.Line, r.Round) }

// Parse parses the result of TaskID. Ok is false for the ID of any other task.
func Parse(id string) (ref Ref, ok bool) {
	rest, round, ok := cutLast(id)
	batch, line, more := cutLast(rest)
	ref = Ref{Batch: batch, Line: line, Round: round}
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
