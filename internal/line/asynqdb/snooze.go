package asynqdb

import (
	"encoding/json"
	"hash/fnv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
)

// Note is why a delivered task waits. Asynq's tools show the text that goes with it as the task's last error.
type Note struct {
	// Reason is one word. Package asynqdb does not read it.
	Reason string `json:"r"`
	// Cause is what a provider or a store answered; empty where nothing did.
	Cause string `json:"c,omitempty"`
	// Text identifies the text, so that the note of an earlier wait does not count for a later failure.
	Text uint32 `json:"t"`
}

// noteField is the field of asynq's task hash that holds the note.
const noteField = "headway_note"

// NewNote returns the note that goes with a text.
func NewNote(reason, cause, text string) Note {
	return Note{Reason: reason, Cause: cause, Text: sum(text)}
}

// Of reports whether the note goes with the last error of a task. The zero Note goes with none.
func (n Note) Of(lastError string) bool { return n.Reason != "" && n.Text == sum(lastError) }

func sum(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}

func (n Note) encode() []byte {
	text, _ := json.Marshal(n) // texts and a number
	return text
}

// Snooze is how a delivery ends whose task waits.
type Snooze struct {
	// Until is when asynq delivers the task, in whole seconds, should it not be woken before.
	Until time.Time
	Note  Note
}

// Snoozes are the deliveries of a process that end with a [Snooze]. A [Server] that has them ends such a delivery by a
// script of its own, whatever asynq would do: no failure is counted, and a task on its last attempt is not archived.
// The zero value is ready. Safe for concurrent use.
type Snoozes struct{ tasks bounded.Map[string, Snooze] }

// Add has the present delivery of the task end with a snooze. Call it before the handler returns an error to asynq: the
// text of that error is the task's last error.
func (s *Snoozes) Add(queue, id string, z Snooze) {
	s.tasks.Change(keysOf(queue).tasks()+id, func(have *Snooze) { *have = z })
}

// Forget ends what Add began. Call it when a delivery begins: the one before may have ended without asynq's script.
func (s *Snoozes) Forget(queue, id string) { s.tasks.Delete(keysOf(queue).tasks() + id) }

// failing reports whether the script is asynq's that retries or archives a task.
func (c script) failing() bool {
	return len(c.keys) >= 4 && len(c.args) >= 2 && c.keys[0] == c.taskKey() &&
		strings.HasSuffix(c.keys[1], ":active") && strings.HasSuffix(c.keys[2], ":lease") &&
		(strings.HasSuffix(c.keys[3], ":retry") || strings.HasSuffix(c.keys[3], ":archived"))
}

// snoozed returns the call of the script snooze in place of asynq's, if the delivery ends with one.
func (s *Server) snoozed(call script) (snooze script, ok bool) {
	if s.Snoozes == nil || !call.failing() {
		return call, false
	}
	z := s.Snoozes.tasks.Get(call.keys[0])
	if z.Until.IsZero() {
		return call, false
	}
	retry := keysOf(queueOf(call.keys[1])).retry()
	return script{
		keys: []string{call.keys[0], call.keys[1], call.keys[2], retry},
		args: []any{call.args[0], call.args[1], z.Until.Unix(), z.Note.encode()},
	}, true
}
