package record

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// The codes of failures without an answer of the API. CodeCancelled, CodeExpired and CodeTimeout are OpenAI's own.
const (
	CodeCancelled = "batch_cancelled"
	CodeTimeout   = "request_timeout"
	CodeFailed    = "request_failed"
	// CodeRefused means that no worker could start the task.
	CodeRefused = "request_refused"
	// CodeExpired means that the task did not start in time.
	CodeExpired = "batch_expired"
)

// Request is one request of a batch.
type Request struct {
	batch.Line // without its Number, which Ref has

	Ref   batchref.Ref
	Model string
}

// result returns the fields of a result that do not depend on the outcome.
func (q Request) result() batches.Result {
	return batches.Result{Batch: q.Ref.Batch, Line: q.Ref.Line, CustomID: q.CustomID, Model: q.Model}
}

// Cancelled is the failure of a request that has no result when its batch is cancelled.
func Cancelled() *batches.Failure {
	return &batches.Failure{Code: CodeCancelled, Message: "This request was not completed: its batch was cancelled."}
}

// Failed returns the result of a request that failed permanently. If the error has an answer of the API, the result
// contains it. Code is the failure without an answer, or with an answer whose status looks good. The result contains
// the request, so that it can be put back.
func Failed(q Request, code string, err error) batches.Result {
	r := q.result()
	r.Request = q.JSON() // nil can't be sent again
	if r.Response = answerIn(err); !r.Failed() || r.Response == nil {
		r.Failure = &batches.Failure{Code: code, Message: err.Error()}
	}
	return r
}

// answerIn returns the answer of the API in the error, or nil. There is none for an answer whose status is no error and
// that can't be used.
func answerIn(err error) *batches.Response {
	if e, ok := errors.AsType[*llm.Error](err); ok && e.StatusCode >= http.StatusBadRequest {
		return &batches.Response{StatusCode: e.StatusCode, RequestID: e.RequestID, Body: errorBody(e)}
	}
	if e, ok := errors.AsType[*web.Error](err); ok && e.Err == nil && e.Answer.StatusCode != 0 {
		return &batches.Response{StatusCode: e.Answer.StatusCode, RequestID: e.Answer.RequestID, Body: e.Answer.Body}
	}
	return nil
}

// errorBody returns the body of a provider's error if that is a JSON object, else an object in the shape of OpenAI's
// errors.
func errorBody(e *llm.Error) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(e.Body, &object) == nil && object != nil {
		return e.Body
	}
	named := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	type fields struct {
		Message string  `json:"message"`
		Type    *string `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	body, _ := json.Marshal(map[string]fields{ // texts have no fault
		"error": {e.Message, named(e.Type), named(e.Param), named(e.Code)},
	})
	return body
}
