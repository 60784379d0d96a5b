package chat

import (
	"encoding/json"
	"net/http"

	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// Requests are how the request is found in the payload of each task type that a batch can have. It is not ok for a task
// of no batch.
func Requests() map[string]func(payload []byte) (record.Request, bool) {
	return map[string]func([]byte) (record.Request, bool){llm.TaskType: inPayload(callOf), web.TaskType: inPayload(webOf)}
}

func inPayload[T any](read func(T) (record.Request, bool)) func([]byte) (record.Request, bool) {
	return func(payload []byte) (record.Request, bool) {
		var args T
		if json.Unmarshal(payload, &args) != nil {
			return record.Request{}, false
		}
		return read(args)
	}
}

func callOf(c llm.Call) (record.Request, bool) {
	if c.Batch == nil {
		return record.Request{}, false
	}
	var body struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(c.Request, &body) // a body that can't be sent has no model
	return record.Request{
		Ref: *c.Batch, CustomID: c.CustomID, Method: http.MethodPost, URL: string(c.Endpoint), Model: body.Model,
		Body: c.Request,
	}, true
}

func webOf(r web.Request) (record.Request, bool) {
	if r.Batch == nil {
		return record.Request{}, false
	}
	q := record.Request{
		Ref: *r.Batch, CustomID: r.CustomID, Method: r.Method, URL: r.URL, Body: r.Body, Headers: r.Header,
	}
	for _, taken := range r.Taken { // a line charges by meter, whichever limits have it
		for meter, n := range taken.Tokens {
			if q.Charge == nil {
				q.Charge = map[string]float64{}
			}
			q.Charge[meter] = n
		}
	}
	return q, true
}
