package deadtasks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/packed"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/text/batchref"
)

const (
	collection = "dead"

	printShown = 16 // characters of a print that distinguish two tasks with one ID
)

const (
	maxError = 1000 // bytes of an error's text
	maxTries = 100  // attempts that a record keeps while its task is retried: the last ones
	// maxContent bounds payload and headers together. The rest of documents.Largest is for attempts.
	maxContent = 14 << 20
)

// headerRequeue holds the token of the requeue that enqueued a task.
const headerRequeue = "headway-requeue"

// State is the state of a task that failed.
type State string

const (
	// StateFailing is a task that failed and is retried.
	StateFailing State = "failing"
	// StateDead is a task that was archived.
	StateDead State = "dead"
	// StateRequeueing is a task whose requeue was interrupted. Requeue it again.
	StateRequeueing State = "requeueing"
	// StateRequeued is a task that was enqueued again, or that a requeue found in the queue.
	StateRequeued State = "requeued"
	// StateRecovered is a task that succeeded after a failure.
	StateRecovered State = "recovered"
)

// head is the head of the document of a record. The state is the group of the document, and At its place there.
type head struct {
	Task `bson:",inline"`

	Last      int       `bson:"last,omitempty"` // number of the last attempt
	Tries     []try     `bson:"tries,omitempty"`
	Timeout   int64     `bson:"timeout,omitempty"` // in ms, as is Retention
	Retention int64     `bson:"retention,omitempty"`
	Print     string    `bson:"print,omitempty"`   // a hash of type, payload and headers
	Changed   time.Time `bson:"changed,omitempty"` // when the task was requeued or recovered
	Token     string    `bson:"token,omitempty"`   // of the requeue that works on the task

	Others map[string]bson.RawValue `bson:",inline"` // fields of a later version
}

// body is the body of the document of a record.
type body struct {
	Payload bson.RawValue `bson:"payload,omitempty"`
	Headers bson.RawValue `bson:"headers,omitempty"`
}

type try struct {
	Number int       `bson:"n"`
	At     time.Time `bson:"at"`
	MS     int64     `bson:"ms"`
	Error  string    `bson:"error"`
	Worker string    `bson:"worker"`
}

// same returns whether both are one attempt.
func (a try) same(b try) bool { return a.Number == b.Number && a.At.Equal(b.At) }

// key returns the key of the record of a task. "#" and a part of the print follow if the queue had another dead task
// with that ID.
func key(queue, id string) string { return withID(id) + url.PathEscape(queue) }

// withID begins the keys of the records of all tasks with an ID.
func withID(id string) string { return url.PathEscape(id) + "/" }

func tryOf(a deadletter.Attempt) try {
	return try{
		Number: a.Number, At: a.At.UTC().Truncate(time.Millisecond), MS: a.Elapsed.Milliseconds(),
		Error: cut(a.Error), Worker: a.Worker,
	}
}

// cut limits the length of a text and makes it valid UTF-8.
func cut(text string) string {
	if len(text) > maxError {
		text = text[:maxError] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// headersOf returns the headers for the requeue. They have no StartBy, so the task may start at any time.
func headersOf(t deadletter.Task) map[string]string {
	headers := maps.Clone(t.Headers)
	delete(headers, headerRequeue)
	delete(headers, envelope.HeaderStartBy)
	return headers
}

// contents returns what a requeue needs. A payload that is too large is missing.
func contents(t deadletter.Task) (h head, b body, err error) {
	headers, err := json.Marshal(headersOf(t))
	if err != nil {
		return h, b, fmt.Errorf("deadtasks: headers of task %s: %w", t.ID, err)
	}
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(t.Type), headers, t.Payload} { // encoding/json sorts the keys of maps
		fmt.Fprintf(sum, "%d:", len(part))
		sum.Write(part)
	}
	h.Print, h.Batch = hex.EncodeToString(sum.Sum(nil)), batchOf(t)
	h.MaxRetry, h.Deadline = t.MaxRetry, t.Deadline
	h.Timeout, h.Retention = t.Timeout.Milliseconds(), t.Retention.Milliseconds()
	b = body{Payload: packed.Pack(t.Payload), Headers: packed.Pack(headers)}
	if len(b.Payload.Value)+len(b.Headers.Value) > maxContent {
		h.Missing, b.Payload = len(t.Payload), bson.RawValue{}
	}
	return h, b, nil
}

// batchOf returns the ID of the batch that the task is a request of, or "". Both its ID and its payload must name the
// batch.
func batchOf(t deadletter.Task) string {
	ref, ok := batchref.Parse(t.ID)
	if !ok {
		return ""
	}
	var payload struct {
		Batch batchref.Ref `json:"batch"`
	}
	if json.Unmarshal(t.Payload, &payload) != nil || payload.Batch.TaskID() != t.ID {
		return ""
	}
	return ref.Batch
}

// decodeHead reads a head. The error matches ErrMalformed.
func decodeHead(d documents.Document) (h head, err error) {
	if d.Version == "" {
		return h, nil
	}
	if err = bson.Unmarshal(d.Head, &h); err != nil {
		return head{}, fmt.Errorf("%w: record %.200q: %w", ErrMalformed, d.Key, err)
	}
	return h, nil
}

// decode reads a record. The payload is empty if the document was read without its body.
func decode(d documents.Document) (Task, error) {
	h, err := decodeHead(d)
	if err != nil {
		return Task{}, err
	}
	t := h.Task
	t.key, t.token, t.MaxRetry = d.Key, h.Token, max(0, t.MaxRetry)
	t.At = t.At.UTC()
	t.Timeout, t.Retention = packed.Milliseconds(h.Timeout), packed.Milliseconds(h.Retention)
	if t.Deadline.Unix() <= 0 {
		t.Deadline = time.Time{}
	}
	for _, a := range h.Tries {
		t.Attempts = append(t.Attempts, deadletter.Attempt{
			Number: a.Number, At: a.At.UTC(), Elapsed: packed.Milliseconds(a.MS), Error: a.Error, Worker: a.Worker,
		})
	}
	var b body
	if d.Body != nil {
		err = bson.Unmarshal(d.Body, &b)
	}
	if err == nil {
		t.Payload, err = packed.Unpack(b.Payload)
	}
	var headers []byte
	if err == nil {
		headers, err = packed.Unpack(b.Headers)
	}
	if err == nil && len(headers) > 0 {
		err = json.Unmarshal(headers, &t.Headers)
	}
	if err != nil {
		return Task{}, fmt.Errorf("%w: record %.200q: %w", ErrMalformed, d.Key, err)
	}
	return t, nil
}

// Task is the record of one task.
type Task struct {
	key   string // of the document
	token string // of the requeue that works on the task

	// ID, Queue and Type are from asynq's task.
	ID          string `bson:"task"`
	Queue, Type string
	State       State
	// At is when the task ended. For a failing task it is when the task last failed.
	At time.Time
	// Cause and Error are the reason why the task ended. Cause is "retries", "permanent", "refused", "expired", or "found"
	// for a task that was found in asynq's archive. Error has at most 1000 bytes.
	Cause deadletter.Cause
	Error string
	// Attempts are the failed attempts, in the order in which workers reported them. Each has a Number, the time At which
	// it ended, Elapsed, its Error and its Worker (host:pid). For a task that is retried they are at most the last 100.
	// Attempts of workers that died are missing.
	Attempts []deadletter.Attempt `bson:"-"`
	// Payload and Headers are for the requeue; the charges are a header. Missing is the size of a payload that is too
	// large for a record. Only asynq's archive has such a payload.
	Payload []byte            `bson:"-"`
	Headers map[string]string `bson:"-"`
	Missing int               `bson:"missing,omitempty"`
	// MaxRetry is asynq's count. It is Headway's count plus envelope.Slack.
	MaxRetry int `bson:"retries"`
	// Timeout, Retention and Deadline are zero if the task has none.
	Timeout, Retention time.Duration `bson:"-"`
	Deadline           time.Time     `bson:"deadline,omitempty"`
	// Batch is the ID of the batch that the task is a request of. It is empty for other tasks.
	Batch string `bson:"batch,omitempty"`
	// Requeues are the times at which the task was enqueued again.
	Requeues []time.Time `bson:"requeues,omitempty"`
}
