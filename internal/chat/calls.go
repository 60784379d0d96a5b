package chat

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// HandleCalls is HandleRecorded for calls of every endpoint.
func HandleCalls(w *worker.Worker, client *llm.Client, recorder *record.Recorder, learning *Learning) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Call]) error {
		ctx, release := client.Hold(ctx)
		defer release()
		q, ok := callOf(job.Args)
		return run(ctx, job, job.Args, learning, recorder, q, ok, func(ctx context.Context) (llm.Answer, error) {
			return client.RunCall(ctx, job.Args, job.Use, job.Saw)
		})
	})
}

// CallRequest is Request for the payload of a llm.Call.
func CallRequest(payload []byte) (record.Request, bool) {
	var c llm.Call
	if json.Unmarshal(payload, &c) != nil {
		return record.Request{}, false
	}
	return callOf(c)
}

func callOf(c llm.Call) (record.Request, bool) {
	if c.Batch == nil {
		return record.Request{}, false
	}
	return record.Request{
		Ref: *c.Batch, CustomID: c.CustomID, Method: http.MethodPost, URL: string(c.Endpoint), Model: modelOf(c.Request), Body: c.Request,
	}, true
}
