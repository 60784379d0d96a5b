package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// HandleCalls is HandleRecorded for calls of every endpoint.
func HandleCalls(w *worker.Worker, client *llm.Client, recorder *record.Recorder) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Call]) error {
		if q, ok := callOf(job.Args); ok && recorder != nil {
			return recorder.Run(ctx, attemptOf(job, job.Args.Charge), q, func(ctx context.Context) (record.Answer, error) {
				return recorded(client.RunCall(ctx, job.Args, job.Use, job.Saw))
			})
		}
		answer, err := client.RunCall(ctx, job.Args, job.Use, job.Saw)
		if err != nil {
			return err
		}
		if err := keep(ctx, job.Task.ResultWriter(), answer.Body); err != nil {
			return fmt.Errorf("keep the answer of task %s: %w", job.ID, err)
		}
		return nil
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
