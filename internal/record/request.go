package record

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/tasks"
)

// The codes of failures without an answer of the API. CodeCancelled, CodeExpired and CodeTimeout are OpenAI's own.
const (
	CodeCancelled = "batch_cancelled"
	CodeTimeout   = "request_timeout"
	CodeFailed    = "request_failed"
	// CodeRefused is a task that no worker could start.
	CodeRefused = "request_refused"
	// CodeExpired is a task that did not start in time.
	CodeExpired = "batch_expired"
)

// Request is one request of a batch, as its line has it.
type Request struct {
	Ref      tasks.BatchRef
	CustomID string
	Method   string
	URL      string
	Model    string
	Body     json.RawMessage

	// Headers and Charge are for requests with an absolute URL, and may be absent.
	Headers map[string]string
	Charge  map[string]float64
}

// Line is the request in the input format of batch files, on one line.
func (q Request) Line() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		CustomID string             `json:"custom_id"`
		Method   string             `json:"method"`
		URL      string             `json:"url"`
		Headers  map[string]string  `json:"headers,omitempty"`
		Body     json.RawMessage    `json:"body,omitempty"`
		Charge   map[string]float64 `json:"charge,omitempty"`
	}{q.CustomID, q.Method, q.URL, q.Headers, q.Body, q.Charge})
	if err != nil {
		return nil // the body is no JSON: nothing that could be sent again
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// result is what is the same whatever became of the request.
func (q Request) result() batches.Result {
	return batches.Result{Batch: q.Ref.Batch, Line: q.Ref.Line, CustomID: q.CustomID, Model: q.Model}
}

// Failed is the result of a request that failed for good. Where the error is an answer of the API, the result has it;
// code is for where none came, or one with a status that would pass for a good one. The request is kept, so that it can
// be put back.
func Failed(q Request, code string, err error) batches.Result {
	r := q.result()
	r.Request = q.Line()
	if r.Response = answerIn(err); !r.Failed() || r.Response == nil {
		r.Failure = &batches.Failure{Code: code, Message: err.Error()}
	}
	return r
}

// answered is an error that is the answer of an API.
type answered interface {
	error
	Answered() (status int, requestID string, body json.RawMessage)
}

// answerIn is the answer of the API that the error holds, nil where none came.
func answerIn(err error) *batches.Response {
	var a answered
	if !errors.As(err, &a) {
		return nil
	}
	status, requestID, body := a.Answered()
	if status == 0 {
		return nil
	}
	return &batches.Response{StatusCode: status, RequestID: requestID, Body: body}
}
