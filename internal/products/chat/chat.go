// Package chat runs calls of language models and HTTP requests on a worker: what the commands and the demo share.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// Provider returns the client for the calls of a limit. If there is none, it returns what the worker lacks.
type Provider func(limit string) (client *llm.Client, missing string)

// Only returns the Provider with one client for all limits.
func Only(client *llm.Client) Provider {
	return func(string) (*llm.Client, string) { return client, "" }
}

// Prices are the prices of models, for calls that take from the budget of a key. A call of a model without a price
// costs what was estimated.
type Prices map[string]estimates.Price

// HandleAll lets a worker run calls through a provider, and HTTP requests through requests.
func HandleAll(
	w *worker.Worker, provider Provider, requests *web.Client, recorder *record.Recorder, learning *Learning,
	unusable *Unusable, prices Prices,
) {
	HandleCalls(w, provider, recorder, learning, unusable, prices)
	HandleRequests(w, requests, recorder)
}

// HandleCalls lets a worker run calls through the provider of their last limit. What a call really used settles its
// charge, and what the provider says is left of its limits corrects the bucket. The body of the answer becomes the
// task's result, or recorder writes the result of a task that belongs to a batch. Without a client the worker sends
// calls back to the queue, for a worker that has one, and without a recorder the calls of batches.
func HandleCalls(
	w *worker.Worker, provider Provider, recorder *record.Recorder, learning *Learning, unusable *Unusable,
	prices Prices,
) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Call]) error {
		call, limit := job.Args, charged(job).Limit
		client, missing := provider(limit)
		if client == nil {
			return giveBack(missing, register.Need{Type: call.TaskType(), Limit: limit, Provider: true})
		}
		ctx, release := intake.Hold(ctx)
		defer release()
		var estimate openai.Estimate
		if learning != nil {
			var err error
			if estimate, err = assess(call); err == nil && slices.Contains(learning.Limits, limit) {
				job.Lower(learning.expect(estimate, limit))
			}
		}
		var body []byte
		return run(ctx, job, recorder, callOf, func(ctx context.Context) (record.Answer, error) {
			answer, err := client.Run(ctx, call, job.Use, job.Observe)
			job.Use(prices.spent(job.Charges, call, answer, err))
			if err != nil {
				return record.Answer{}, unusable.after(ctx, job.Queue, job.ID, err)
			}
			if learning != nil {
				learning.learn(estimate, answer, charged(job))
			}
			body = answer.Body
			return record.Answer{
				Response: batches.Response{StatusCode: answer.StatusCode, RequestID: answer.RequestID, Body: body},
				Usage: batches.Usage{
					Used: answer.Usage[llm.MeterTokens], Prompt: answer.Usage[llm.MeterInput],
					Completion: answer.Usage[llm.MeterOutput],
				},
			}, nil
		}, func() ([]byte, error) { return body, nil })
	})
}

// HandleRequests lets a worker make HTTP requests through client. The answer becomes the task's result, or that of its
// line, as in HandleCalls.
func HandleRequests(w *worker.Worker, client *web.Client, recorder *record.Recorder) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[web.Request]) error {
		ctx, release := intake.Hold(ctx)
		defer release()
		var answer web.Answer
		return run(ctx, job, recorder, webOf, func(ctx context.Context) (_ record.Answer, err error) {
			answer, err = client.Run(ctx, job.Args, job.Use)
			return record.Answer{Response: batches.Response{
				StatusCode: answer.StatusCode, RequestID: answer.RequestID, Body: answer.Body,
			}}, err
		}, func() ([]byte, error) { return answer.MarshalJSON() }) // json.Marshal would copy it once more
	})
}

// run makes one call and keeps its answer: recorder does where the task belongs to a batch. Without a recorder such a
// task goes back.
func run[T tasks.Args](
	ctx context.Context, job *worker.Job[T], recorder *record.Recorder, request func(T) (record.Request, bool),
	send func(context.Context) (record.Answer, error), result func() ([]byte, error),
) error {
	if q, ofBatch := request(job.Args); ofBatch {
		if recorder == nil {
			return giveBack("store of results", register.Need{})
		}
		return recorder.Run(ctx, record.Attempt{
			ID: job.ID, Number: job.Attempt, MaxRetry: job.MaxRetry, Reserved: reserved(charged(job)),
			Unused: func() { job.Use(reservations.Unused(job.Charges...)) },
		}, q, send)
	}
	if _, err := send(ctx); err != nil {
		return err
	}
	text, err := result()
	if err == nil {
		err = keep(ctx, job.Task.ResultWriter(), text)
	}
	if err != nil {
		return fmt.Errorf("keep the answer of task %s: %w", job.ID, err)
	}
	return nil
}

// charged is what is charged to the last limit of a job, the provider's.
func charged[T tasks.Args](job *worker.Job[T]) (charge reservations.Charge) {
	if n := len(job.Charges); n > 0 {
		charge = job.Charges[n-1]
	}
	return charge
}

// giveBack sends one task back to the queue, with all that was taken for it, because this worker lacks something. It
// uses no retry: a key that one machine lacks must not archive what others could do.
// A need that is not zero is shown until another worker has it.
func giveBack(missing string, need register.Need) error {
	err := dispatcher.WaitWorker("the worker that took the task has no "+missing, givenBackFor)
	if need != (register.Need{}) {
		err = &register.LackError{Need: need, Err: err}
	}
	return httpcall.NotCalled(err)
}

const (
	// givenBackFor is how long a task waits for another worker.
	givenBackFor = 2 * time.Second
	// keepPatience is less than asynq's lease of 30 seconds and than the usual shutdown timeout.
	keepPatience = 20 * time.Second
	keepPauseMin = 100 * time.Millisecond
	keepPauseMax = time.Second
)

// keep writes the answer to Redis, and tries again while Redis is away: to fail would mean to ask, and to pay, once
// more.
func keep(ctx context.Context, result io.Writer, answer []byte) error {
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	err := pause.Until(ctx, keepPauseMin, keepPauseMax, func() error {
		_, err := result.Write(answer)
		return err
	})
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}
