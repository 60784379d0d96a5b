package batches

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// CodeTooLarge is the [Failure] code of a request whose answer does not fit into a document.
const CodeTooLarge = "response_too_large"

// AttemptsMost is the largest number of failed attempts that [Store.Attempt] stores of a request, so that a document
// can't grow without end. The first attempts stay.
const AttemptsMost = 200

// Attempt is one failed attempt of a request.
type Attempt struct {
	At         time.Time // its start, in milliseconds
	StatusCode int       `bson:"code,omitempty"` // zero if there was no answer
	Error      string    // cut at 1000 bytes
}

// Response is the answer of the API, good or bad.
type Response struct {
	StatusCode int
	RequestID  string          // the API's ID of the request; may be empty
	Body       json.RawMessage // unchanged; need not be JSON
}

// Failure is the reason why a request has no usable answer.
type Failure struct {
	Code    string `bson:"code"`    // for programs, such as batch_cancelled
	Message string `bson:"message"` // for people
}

// Usage is the usage of a request: tokens of the limit, reserved and used, and tokens by the count of the API.
type Usage struct {
	Reserved   float64 `bson:"reserved,omitempty"   json:"tokens_reserved"`
	Used       float64 `bson:"used,omitempty"       json:"tokens_used"`
	Prompt     float64 `bson:"prompt,omitempty"     json:"prompt_tokens"`
	Completion float64 `bson:"completion,omitempty" json:"completion_tokens"`
}

// Result is the result of one request.
type Result struct {
	Batch    string `bson:"-"`
	Line     int    `bson:"-"` // in the file, from 1
	CustomID string `bson:"custom"`

	Response *Response `bson:"-"`                 // nil if there was no answer
	Failure  *Failure  `bson:"failure,omitempty"` // nil for a request that was answered

	// Attempts are the failed attempts. Pass to Finish only attempts that [Store.Attempt] has not stored.
	Attempts []Attempt `bson:"tries,omitempty"`

	Usage Usage  `bson:",inline"` // the sum of all rounds, if [Store.Reopen] put the result back
	Model string `bson:"model,omitempty"`

	// Request is the body that was sent. It is stored for failed requests only.
	Request json.RawMessage `bson:"-"`

	// Finished is when the request ended, in milliseconds. Finish takes zero for now. When read, zero means no result
	// yet.
	Finished time.Time `bson:"at,omitempty"`

	Round int `bson:"round,omitempty"` // how often [Store.Reopen] put the request back; Finish ignores it
}

// Failed returns whether the request belongs into the error file: it has a Failure, no answer, or a status of 400 or
// more.
func (r *Result) Failed() bool {
	return r.Failure != nil || r.Response == nil || r.Response.StatusCode >= http.StatusBadRequest
}

// Fault returns why a request has failed: its Failure, the error of its last attempt, or its status.
func (r *Result) Fault() string {
	switch {
	case r.Failure != nil:
		return r.Failure.Message
	case len(r.Attempts) > 0:
		return r.Attempts[len(r.Attempts)-1].Error
	case r.Response != nil:
		return fmt.Sprintf("status %d", r.Response.StatusCode)
	}
	return "no answer"
}
