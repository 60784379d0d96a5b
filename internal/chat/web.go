package chat

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// HandleRequests lets the worker make HTTP requests through client. The answer becomes the task's result, or that of its line where it belongs to
// a batch. Without a recorder a task of a batch goes back to the queue.
func HandleRequests(w *worker.Worker, client *web.Client, recorder *record.Recorder) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[web.Request]) error {
		ctx, release := client.Hold(ctx)
		defer release()
		q, ofBatch := webOf(job.Args)
		if ofBatch && recorder == nil {
			return giveBack(job, "MONGODB_URI")
		}
		if ofBatch {
			return recorder.Run(ctx, attemptOf(job), q, func(ctx context.Context) (record.Answer, error) {
				answer, err := client.Run(ctx, job.Args, job.Use)
				return record.Answer{Response: batches.Response{StatusCode: answer.StatusCode, RequestID: answer.RequestID, Body: answer.Body}}, err
			})
		}
		answer, err := client.Run(ctx, job.Args, job.Use)
		if err != nil {
			return err
		}
		text, err := answer.MarshalJSON() // json.Marshal would copy it once more
		if err == nil {
			err = keep(ctx, job.Task.ResultWriter(), text)
		}
		if err != nil {
			return fmt.Errorf("keep the answer of task %s: %w", job.ID, err)
		}
		return nil
	})
}

// WebRequest is Request for the payload of a web.Request.
func WebRequest(payload []byte) (record.Request, bool) {
	var r web.Request
	if json.Unmarshal(payload, &r) != nil {
		return record.Request{}, false
	}
	return webOf(r)
}

func webOf(r web.Request) (record.Request, bool) {
	if r.Batch == nil {
		return record.Request{}, false
	}
	q := record.Request{Ref: *r.Batch, CustomID: r.CustomID, Method: r.Method, URL: r.URL, Body: r.Body, Headers: r.Header}
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
