package batches

import (
	"encoding/json"
	"net/http"
	"time"
)

// CodeTooLarge is the [Failure] of a request whose answer does not fit into a document.
const CodeTooLarge = "response_too_large"

// AttemptsMost is how many failed attempts of a request are kept beside its last ones, the oldest: a document can't
// grow without end.
const AttemptsMost = 200

// Attempt is one failed attempt of a request.
type Attempt struct {
	At         time.Time     // when it began, in milliseconds
	Elapsed    time.Duration // in milliseconds
	StatusCode int           // zero where no answer came
	Error      string        // cut at 1000 bytes
}

// Response is the answer of the API, good or bad.
type Response struct {
	StatusCode int
	RequestID  string          // what the API calls the request; may be empty
	Body       json.RawMessage // as it came; need not be JSON
}

// Failure says why a request has no answer that can be used.
type Failure struct {
	Code    string `bson:"code"`    // for programs, such as batch_cancelled
	Message string `bson:"message"` // for people
}

// Usage is what a request took: tokens of the limit, before and after the call, and tokens as the API counts them.
type Usage struct {
	Reserved   float64 `bson:"reserved"`
	Used       float64 `bson:"used"`
	Prompt     float64 `bson:"prompt"`
	Completion float64 `bson:"completion"`
}

// Result is what became of one request.
type Result struct {
	Batch    string
	Line     int // in the file, from 1
	CustomID string

	// Response is nil where no answer came.
	Response *Response

	// Failure is nil for a request that was answered.
	Failure *Failure

	// Attempts are the failed ones. To Finish they are those which were not stored by [Store.Attempt] before.
	Attempts []Attempt

	// Usage is that of all rounds together where the result was put back by [Store.Reopen].
	Usage Usage

	Model string

	// Request is what was sent. It is stored for failed requests only.
	Request json.RawMessage

	// Finished is when the request ended, in milliseconds. Zero means now to Finish, and no result yet to readers.
	Finished time.Time

	// Round counts how often the request was put back by [Store.Reopen]. Finish ignores it.
	Round int
}

// Failed says whether the request belongs into the error file: it has a Failure, no answer, or one with a status of 400
// or more.
func (r *Result) Failed() bool {
	return r.Failure != nil || r.Response == nil || r.Response.StatusCode >= http.StatusBadRequest
}
