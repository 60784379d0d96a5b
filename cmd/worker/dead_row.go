package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// deadRow is a record as the commands write it.
type deadRow struct {
	ID       string          `json:"id"`
	Queue    string          `json:"queue"`
	Type     string          `json:"type"`
	State    deadtasks.State `json:"state"`
	At       time.Time       `json:"at"`
	Cause    worker.Cause    `json:"cause,omitempty"`
	Error    string          `json:"error"`
	Batch    string          `json:"batch,omitempty"`
	Requeues []time.Time     `json:"requeued_at,omitempty"`
	Attempts []deadAttempt   `json:"attempts"`

	// The rest is left out of lists.
	MaxRetry  *int              `json:"max_retry,omitempty"`
	Timeout   float64           `json:"timeout_seconds,omitempty"`
	Retention float64           `json:"retention_seconds,omitempty"`
	Deadline  *time.Time        `json:"deadline,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Payload   json.RawMessage   `json:"payload,omitempty"`
	Base64    []byte            `json:"payload_base64,omitempty"` // of a payload that is no JSON
	Missing   int               `json:"payload_missing_bytes,omitempty"`
}

type deadAttempt struct {
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error"`
	Worker  string    `json:"worker,omitempty"`
}

func rowOf(t deadtasks.Task) deadRow {
	r := deadRow{ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State, At: t.At, Cause: t.Cause, Error: t.Error, Batch: t.Batch, Requeues: t.Requeues, Attempts: []deadAttempt{}}
	for _, a := range t.Attempts {
		r.Attempts = append(r.Attempts, deadAttempt{Number: a.Number, At: a.At, Seconds: a.Elapsed.Seconds(), Error: a.Error, Worker: a.Worker})
	}
	return r
}

// wholeRowOf has all that the task is enqueued with again.
func wholeRowOf(t deadtasks.Task) deadRow {
	r := rowOf(t)
	retries := retriesOf(t)
	r.MaxRetry, r.Timeout, r.Retention, r.Headers, r.Missing = &retries, t.Timeout.Seconds(), t.Retention.Seconds(), t.Headers, t.Missing
	if !t.Deadline.IsZero() {
		r.Deadline = &t.Deadline
	}
	if json.Valid(t.Payload) {
		r.Payload = t.Payload
	} else {
		r.Base64 = t.Payload
	}
	return r
}

// retriesOf is our count of retries, asynq's for a foreign task.
func retriesOf(t deadtasks.Task) int {
	if n, ours := tasks.MaxRetry(asynq.NewTaskWithHeaders(t.Type, nil, t.Headers)); ours {
		return n
	}
	return t.MaxRetry
}

func encoderTo(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // payloads are read by people
	return e
}
