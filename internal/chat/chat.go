// Package chat runs chat completions on a worker: what the commands and the demo share.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// Handle lets the worker run chat completions through client. What a call really used settles its charge, and what the provider says is
// left of its limits corrects the bucket; the body of the
// answer becomes the task's result, which asynq keeps as long as the task's retention says.
func Handle(w *worker.Worker, client *llm.Client) { HandleRecorded(w, client, nil) }

// HandleAll lets a worker that serves batches run chats and calls through client, and HTTP requests through requests.
func HandleAll(w *worker.Worker, client *llm.Client, requests *web.Client, recorder *record.Recorder) {
	HandleRecorded(w, client, recorder)
	HandleCalls(w, client, recorder)
	HandleRequests(w, requests, recorder)
}

// HandleRecorded is Handle for a worker that serves batches as well: the result of a chat that belongs to one is written by recorder instead.
func HandleRecorded(w *worker.Worker, client *llm.Client, recorder *record.Recorder) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Chat]) error {
		if q, ok := requestOf(job.Args); ok && recorder != nil {
			return recorder.Run(ctx, attemptOf(job, job.Args.Charge), q, func(ctx context.Context) (record.Answer, error) {
				return recorded(client.Run(ctx, job.Args, job.Use, job.Saw))
			})
		}
		answer, err := client.Run(ctx, job.Args, job.Use, job.Saw)
		if err != nil {
			return err
		}
		if err := keep(ctx, job.Task.ResultWriter(), answer.Body); err != nil {
			return fmt.Errorf("keep the answer of task %s: %w", job.ID, err)
		}
		return nil
	})
}

const (
	// keepPatience is less than asynq's lease of 30 seconds and than the usual shutdown timeout.
	keepPatience = 20 * time.Second
	keepPauseMin = 100 * time.Millisecond
	keepPauseMax = time.Second
)

// keep writes the answer to Redis, again and again while Redis is away: to fail would mean to ask, and to pay, once more.
func keep(ctx context.Context, result io.Writer, answer []byte) error {
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	for pause := keepPauseMin; ; pause = min(2*pause, keepPauseMax) {
		_, err := result.Write(answer)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}
