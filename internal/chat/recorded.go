package chat

import (
	"encoding/json"
	"net/http"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

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
	var body struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(c.Request, &body) // a body that can't be sent has no model
	return record.Request{
		Ref: *c.Batch, CustomID: c.CustomID, Method: http.MethodPost, URL: batch.URLChatCompletions, Model: body.Model, Body: c.Request,
	}, true
}

func attemptOf(job *worker.Job[llm.Chat]) record.Attempt {
	none := reservations.Tokens{}
	for _, c := range job.Charges {
		for meter := range c.Tokens {
			none[meter] = 0
		}
	}
	return record.Attempt{
		ID: job.ID, Number: job.Attempt, MaxRetry: job.MaxRetry, Reserved: reserved(job.Args.Charge), Unused: func() { job.Use(none) },
	}
}

// reserved are the tokens of a charge, whichever meters count them.
func reserved(charge reservations.Tokens) float64 {
	for _, meter := range []string{llm.MeterTokens, llm.MeterTokensPerDay} {
		if n, ok := charge[meter]; ok {
			return n
		}
	}
	return charge[llm.MeterInput] + charge[llm.MeterOutput]
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
