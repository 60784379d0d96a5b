package deadtasks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/batchref"
	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/packed"
	"github.com/headway-go/headway/scheduler"
)

// The stored record. The package leaves other fields unchanged, so that a later version may add some.
//
//	_id       "queue/id"; "#" and a part of print follow if the queue had another dead task with that ID.
//	task, queue, type of the task.
//	state     failing, dead, requeueing, requeued or recovered.
//	at        when the task ended; of a failing task, when it last failed.
//	cause, error, last: why the task ended, and the number of the last attempt.
//	tries     failed attempts: n, at, ms, error, worker.
//	payload, headers, retries, timeout, retention, deadline: for the requeue; times in ms.
//	missing   the size of a payload that is too large for a document.
//	print     a hash of type, payload and headers.
//	batch     ID of the batch that the task is a request of.
//	changed   when the task was requeued or recovered.
//	token     of the requeue that works on the task.
//	requeues  when the task was requeued.
//	expires   from then on MongoDB may delete the record; not set for dead tasks.
const (
	fieldTask    = "task"
	fieldQueue   = "queue"
	fieldType    = "type"
	fieldState   = "state"
	fieldAt      = "at"
	fieldError   = "error"
	fieldLast    = "last"
	fieldTries   = "tries"
	fieldPayload = "payload"
	fieldHeaders = "headers"
	fieldPrint   = "print"
	fieldBatch   = "batch"
	fieldChanged = "changed"
	fieldToken   = "token"
	fieldExpires = "expires"
)

const (
	maxError = 1000 // bytes of an error's text
	maxTries = 100  // attempts that a record keeps while its task is retried: the last ones
	// maxContent bounds payload and headers together. A document of MongoDB has at most 16 MiB; the rest is for
	// attempts.
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

// document is a stored record: the fields of its Task, and what has another form there.
type document struct {
	Key       string `bson:"_id"`
	Task      `bson:",inline"`
	Tries     []try         `bson:"tries"`
	Payload   bson.RawValue `bson:"payload"`
	Headers   bson.RawValue `bson:"headers"`
	Timeout   int64         `bson:"timeout"`
	Retention int64         `bson:"retention"`
	Token     string        `bson:"token"`
}

type try struct {
	Number int       `bson:"n"`
	At     time.Time `bson:"at"`
	MS     int64     `bson:"ms"`
	Error  string    `bson:"error"`
	Worker string    `bson:"worker"`
}

func key(queue, id string) string { return scheduler.Task{Queue: queue, ID: id}.String() }

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

// contents returns the fields that a requeue needs.
func contents(t deadletter.Task) (bson.M, error) {
	headers, err := json.Marshal(headersOf(t))
	if err != nil {
		return nil, fmt.Errorf("deadtasks: headers of task %s: %w", t.ID, err)
	}
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(t.Type), headers, t.Payload} { // encoding/json sorts the keys of maps
		fmt.Fprintf(sum, "%d:", len(part))
		sum.Write(part)
	}
	payload, size := packed.Pack(t.Payload)
	packedHeaders, more := packed.Pack(headers)
	fields := bson.M{
		fieldPrint: hex.EncodeToString(sum.Sum(nil)), fieldHeaders: packedHeaders, fieldPayload: payload, "missing": 0,
		fieldBatch: batchOf(t), "retries": t.MaxRetry, "timeout": t.Timeout.Milliseconds(),
		"retention": t.Retention.Milliseconds(), "deadline": t.Deadline,
	}
	if size+more > maxContent {
		fields["missing"], fields[fieldPayload] = len(t.Payload), nil
	}
	return fields, nil
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

// task decodes a document. The payload is empty if the query did not ask for it.
func (d *document) task() (Task, error) {
	t := d.Task
	t.key, t.token, t.MaxRetry = d.Key, d.Token, max(0, t.MaxRetry)
	t.Timeout, t.Retention = packed.Milliseconds(d.Timeout), packed.Milliseconds(d.Retention)
	if t.Deadline.Unix() <= 0 {
		t.Deadline = time.Time{}
	}
	for _, a := range d.Tries {
		t.Attempts = append(t.Attempts, deadletter.Attempt{
			Number: a.Number, At: a.At, Elapsed: packed.Milliseconds(a.MS), Error: a.Error, Worker: a.Worker,
		})
	}
	fail := func(err error) (Task, error) { return Task{}, fmt.Errorf("%w: task %s: %w", ErrMalformed, d.Key, err) }
	var err error
	if d.Payload.Type != bson.TypeNull {
		if t.Payload, err = packed.Unpack(d.Payload); err != nil {
			return fail(err)
		}
	}
	headers, err := packed.Unpack(d.Headers)
	if err == nil && len(headers) > 0 {
		err = json.Unmarshal(headers, &t.Headers)
	}
	if err != nil {
		return fail(err)
	}
	return t, nil
}

// Task is the record of one task.
type Task struct {
	key   string // the _id of the document
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
	Missing int
	// MaxRetry is asynq's count. It is Headway's count plus envelope.Slack.
	MaxRetry int `bson:"retries"`
	// Timeout, Retention and Deadline are zero if the task has none.
	Timeout, Retention time.Duration `bson:"-"`
	Deadline           time.Time
	// Batch is the ID of the batch that the task is a request of. It is empty for other tasks.
	Batch string
	// Requeues are the times at which the task was enqueued again.
	Requeues []time.Time
}
