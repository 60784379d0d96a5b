package chat

import (
	"encoding/json"
	"net/http"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// Requests are how the request is found in the payload of each task type that a batch can have.
func Requests() map[string]func(payload []byte) (record.Request, bool) {
	return map[string]func([]byte) (record.Request, bool){llm.TaskType: Request, llm.CallType: CallRequest, web.TaskType: WebRequest}
}

// Request is the request in the payload of a chat. It is not ok where the chat belongs to no batch.
func Request(payload []byte) (record.Request, bool) {
	var c llm.Chat
	if json.Unmarshal(payload, &c) != nil {
		return record.Request{}, false
	}
	return requestOf(c)
}

func requestOf(c llm.Chat) (record.Request, bool) {
	if c.Batch == nil {
		return record.Request{}, false
	}
	return record.Request{
		Ref: *c.Batch, CustomID: c.CustomID, Method: http.MethodPost, URL: string(llm.EndpointChat), Model: modelOf(c.Request), Body: c.Request,
	}, true
}

// modelOf is the model that a body names. One that can't be sent has none.
func modelOf(request json.RawMessage) string {
	var body struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(request, &body)
	return body.Model
}

// attemptOf is the attempt of a job. Reserved are the tokens that it takes from its last limit.
func attemptOf[T tasks.Args](job *worker.Job[T]) record.Attempt {
	return record.Attempt{
		ID: job.ID, Number: job.Attempt, MaxRetry: job.MaxRetry, Reserved: llm.Reserved(taken(job)), Unused: func() { job.Use(reservations.Unused(job.Charges...)) },
	}
}

func recorded(answer llm.Answer, err error) (record.Answer, error) {
	if err != nil {
		return record.Answer{}, err
	}
	return record.Answer{
		Response: batches.Response{StatusCode: http.StatusOK, RequestID: answer.RequestID, Body: answer.Body},
		Usage:    batches.Usage{Used: answer.Usage.Total(), Prompt: answer.Usage.Input, Completion: answer.Usage.Output},
	}, nil
}
