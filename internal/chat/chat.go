// Package chat runs chat completions on a worker: what the commands and the demo share.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// Handle lets the worker run chat completions through client. What a call really used settles its charge, and what the provider says is
// left of its limits corrects the bucket; the body of the
// answer becomes the task's result, which asynq keeps as long as the task's retention says.
func Handle(w *worker.Worker, client *llm.Client) { HandleRecorded(w, client, nil, nil) }

// HandleAll lets a worker that serves batches run chats and calls through client, and HTTP requests through requests. Without a client the worker
// sends chats and calls back to the queue, for one that has it; they use no retry.
func HandleAll(w *worker.Worker, client *llm.Client, requests *web.Client, recorder *record.Recorder, learning *Learning) {
	if client == nil {
		turnAway(w)
	} else {
		HandleRecorded(w, client, recorder, learning)
		HandleCalls(w, client, recorder, learning)
	}
	HandleRequests(w, requests, recorder)
}

// HandleRecorded is Handle for a worker that serves batches as well, and that learns from its answers: the result of a chat that belongs to a batch is written by recorder instead.
func HandleRecorded(w *worker.Worker, client *llm.Client, recorder *record.Recorder, learning *Learning) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Chat]) error {
		ctx, release := client.Hold(ctx)
		defer release()
		q, ok := requestOf(job.Args)
		return run(ctx, job, job.Args.Call(), learning, recorder, q, ok, func(ctx context.Context) (llm.Answer, error) {
			return client.Run(ctx, job.Args, job.Use, job.Saw)
		})
	})
}

// run makes one call and keeps its answer: recorder does where the call belongs to a batch. Without a recorder such a
// task goes back.
func run[T tasks.Args](
	ctx context.Context, job *worker.Job[T], call llm.Call, learning *Learning, recorder *record.Recorder, q record.Request, ofBatch bool,
	send func(context.Context) (llm.Answer, error),
) error {
	if ofBatch && recorder == nil {
		return giveBack(job, "MONGODB_URI")
	}
	expect(learning, job, call)
	if ofBatch {
		return recorder.Run(ctx, attemptOf(job), q, func(ctx context.Context) (record.Answer, error) {
			answer, err := send(ctx)
			return recorded(learnt(learning, job, call, answer, err))
		})
	}
	answer, err := send(ctx)
	if answer, err = learnt(learning, job, call, answer, err); err != nil {
		return err
	}
	if err := keep(ctx, job.Task.ResultWriter(), answer.Body); err != nil {
		return fmt.Errorf("keep the answer of task %s: %w", job.ID, err)
	}
	return nil
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
