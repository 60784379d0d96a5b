package llm

import (
	"encoding/json"
	"maps"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// TaskType is the type of the tasks that a Call makes.
const TaskType = "llm:call"

// The meters that a call can be charged for. Others in a limit are not taken from.
const (
	// MeterRequests counts one for each attempt.
	MeterRequests = "requests"
	// MeterTokens counts the tokens of the prompt and of the answer.
	MeterTokens = "tokens"
	// MeterInput counts the tokens of the prompt, for providers that count them apart.
	MeterInput = "input_tokens"
	// MeterOutput counts the tokens of the answer, for providers that count them apart.
	MeterOutput = "output_tokens"
	// MeterRequestsPerDay counts one for each attempt, beside MeterRequests, for providers that limit both.
	MeterRequestsPerDay = MeterRequests + perDay
	// MeterTokensPerDay counts what MeterTokens counts, for a day.
	MeterTokensPerDay = MeterTokens + perDay
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
// which the endpoint takes nothing (the tokens of moderations) is left out. An empty limit makes an unlimited task. The
// error is a *RequestError, matches ErrUnknownEndpoint, or is a *reservations.ChargeError that matches
// reservations.ErrUnknownMeter.
func NewCall(endpoint Endpoint, limit string, request json.RawMessage, meters ...string) (Call, error) {
	charge, err := endpoint.Charge(limit, "", request, meters...)
	if err != nil {
		return Call{}, err
	}
	call := Call{Endpoint: endpoint, Request: request}
	if limit != "" {
		call.Taken = []reservations.Charge{charge}
	}
	return call, nil
}

// Charge returns what a request body takes from one limit, e.g. from a tenant's for Terms.Taken. Limit, meters and the
// error are as for NewCall; an empty limit takes nothing.
func (e Endpoint) Charge(limit, key string, request json.RawMessage, meters ...string) (reservations.Charge, error) {
	estimate, err := e.Estimate(request)
	if err != nil {
		return reservations.Charge{}, err
	}
	charge := reservations.Charge{Limit: limit, Key: key}
	if limit == "" {
		return charge, nil
	}
	if len(meters) == 0 {
		meters = []string{MeterRequests, MeterTokens}
	}
	all := estimate.Tokens()
	all[MeterRequests], all[MeterRequestsPerDay], all[reservations.MeterInFlight] = 1, 1, 1
	charge.Tokens = reservations.Tokens{}
	for _, name := range meters {
		n, ok := all[name]
		if !ok {
			return reservations.Charge{}, unknownMeter(limit, key, name)
		}
		if n != 0 || e.path() == EndpointChat {
			charge.Tokens[name] = n
		}
	}
	return charge, nil
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

// used is what a call really used, in the meters that it is charged for: the others may not exist.
func (c Call) used(u Usage) reservations.Tokens {
	charged, used := c.reserved(), u.Tokens()
	maps.DeleteFunc(used, func(name string, _ float64) bool {
		_, ok := charged[name]
		return !ok
	})
	return used
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
