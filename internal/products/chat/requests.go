package chat

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// Request returns the request in the payload of a task. It is not ok for a task of no batch.
func Request(taskType string, payload []byte) (q record.Request, ok bool) {
	switch taskType {
	case llm.TaskType:
		return inPayload(payload, callOf)
	case web.TaskType:
		return inPayload(payload, webOf)
	}
	return q, false
}

func inPayload[T any](payload []byte, read func(T) (record.Request, bool)) (q record.Request, ok bool) {
	var args T
	if json.Unmarshal(payload, &args) != nil {
		return q, false
	}
	return read(args)
}

func callOf(c llm.Call) (record.Request, bool) {
	if c.Batch == nil {
		return record.Request{}, false
	}
	var body struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(c.Request, &body) // a body that can't be sent has no model
	return record.Request{Ref: batchref.Ref(*c.Batch), Model: body.Model, Line: batch.Line{
		CustomID: c.CustomID, Method: http.MethodPost, URL: string(c.Endpoint), Body: c.Request,
	}}, true
}

func webOf(r web.Request) (record.Request, bool) {
	if r.Batch == nil {
		return record.Request{}, false
	}
	q := record.Request{Ref: batchref.Ref(*r.Batch), Line: batch.Line{
		CustomID: r.CustomID, Method: r.Method, URL: r.URL, Body: r.Body, Headers: r.Header, Charge: map[string]float64{},
	}}
	for _, taken := range r.Taken { // a line charges by meter, whichever limits have it
		maps.Copy(q.Charge, taken.Tokens)
	}
	return q, true
}
