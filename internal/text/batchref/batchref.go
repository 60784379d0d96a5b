// Package batchref names the requests of batch files in the IDs of their tasks.
package batchref

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
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
	// Mark proves that the process that enqueued the task knows the key of the batch. See Signed.
	Mark string `json:"mark,omitempty"`
}

// NewKey returns the key of a new batch: a random text.
func NewKey() string { return rand.Text() }

// markBytes is the length of a mark, before it is a text.
const markBytes = 16

// Signed returns the reference with its mark. The key is the key of the batch, which no payload contains.
func (r Ref) Signed(key string) Ref {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(r.TaskID())) // a hash has no error
	r.Mark = base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:markBytes])
	return r
}

// SignedBy reports whether the reference has its mark, by the key of its batch. A program that passes on the payloads
// of others may enqueue a task that names any batch: such a task has no mark. An empty key signs nothing.
func (r Ref) SignedBy(key string) bool {
	return key != "" && hmac.Equal([]byte(r.Mark), []byte(r.Signed(key).Mark))
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
