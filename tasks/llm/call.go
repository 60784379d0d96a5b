package llm

import (
	"encoding/json"
	"maps"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// TaskType is the type of the tasks that a Call makes.
const TaskType = "llm:call"

// The meters that a call can be charged for. Others in a limit are not taken from.
const (
	// MeterRequests counts one for each attempt.
	MeterRequests = openai.MeterRequests // "requests"
	// MeterTokens counts the tokens of the prompt and of the answer.
	MeterTokens = openai.MeterTokens // "tokens"
	// MeterInput counts the tokens of the prompt, for providers that count them apart.
	MeterInput = openai.MeterInput // "input_tokens"
	// MeterOutput counts the tokens of the answer, for providers that count them apart.
	MeterOutput = openai.MeterOutput // "output_tokens"
	// MeterRequestsPerDay counts one for each attempt, beside MeterRequests, for providers that limit both.
	MeterRequestsPerDay = openai.MeterRequestsPerDay // "requests_per_day"
	// MeterTokensPerDay counts what MeterTokens counts, for a day.
	MeterTokensPerDay = openai.MeterTokensPerDay // "tokens_per_day"
)

// Call is one request to an endpoint as a task: a chat completion, a response, embeddings, a completion or a
// moderation. Make it with NewCall, then set other Terms as needed.
type Call struct {
	// Terms are what the call takes from limits, and how it shares them. What the call really used settles all of them.
	tasks.Terms
	// Endpoint is where the request goes. Empty means EndpointChat.
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// Request is the body of the call, sent as it is.
	Request json.RawMessage `json:"request"`
}

// NewCall returns the task for a request body that takes from limit. Meters are names of the limit's meters; each must
// have a constant in this package. Without any the call takes from MeterRequests and MeterTokens. A meter of
// which the endpoint takes nothing (the tokens of moderations) is charged with zero. An empty limit is an error, so
// that an unset variable starts no unlimited calls: a Call without Taken is unlimited.
//
// The error matches ErrUnknownEndpoint or reservations.ErrUnknownMeter, or wraps a *reservations.FieldError. Its field
// is that of the body, or "request" for the body itself.
func NewCall(endpoint Endpoint, limit string, request json.RawMessage, meters ...string) (Call, error) {
	charge, err := endpoint.Charge(limit, "", request, meters...)
	if err != nil {
		return Call{}, err
	}
	terms := tasks.Terms{Taken: []reservations.Charge{charge}}
	return Call{Endpoint: endpoint, Request: request, Terms: terms}, nil
}

// TaskType implements tasks.Args.
func (Call) TaskType() string { return TaskType }

// provider is what the call takes from its last limit, the provider's.
func (c Call) provider() reservations.Charge {
	if len(c.Taken) == 0 {
		return reservations.Charge{}
	}
	return c.Taken[len(c.Taken)-1]
}

// charged is the part of used tokens that the call is charged for: the other meters may not exist.
func (c Call) charged(used reservations.Tokens) reservations.Tokens { return among(c.reserved(), used) }

// among is the part of tokens whose meters are charged.
func among(charged, tokens reservations.Tokens) reservations.Tokens {
	part := maps.Clone(tokens)
	maps.DeleteFunc(part, func(meter string, _ float64) bool {
		_, ok := charged[meter]
		return !ok
	})
	return part
}

// reserved is the most that was reserved of each meter.
func (c Call) reserved() reservations.Tokens {
	reserved := reservations.Tokens{}
	for _, charge := range c.Taken {
		for name, n := range charge.Tokens {
			reserved[name] = max(reserved[name], n)
		}
	}
	return reserved
}
