package llm

import (
	"encoding/json"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// CallType is the type of the tasks that a Call makes.
const CallType = "llm:call"

// Call is one request to an endpoint as a task: a chat completion, a response, embeddings, a completion or a
// moderation. Make it with NewCall, then set Key and CustomID as needed. Chat is the same for EndpointChat only, and
// another task type.
type Call struct {
	// Endpoint is where the request goes.
	Endpoint Endpoint `json:"endpoint"`
	// Limit is the name of the limit that the task takes from. Empty means that the task takes from no more than Also.
	Limit string `json:"limit,omitempty"`
	// Key chooses the bucket of the limit, e.g. a tenant or a model.
	Key string `json:"key,omitempty"`
	// CustomID is the caller's own name for the request, as in a batch file. It is not sent.
	CustomID string `json:"custom_id,omitempty"`
	// Urgent lets the task start before ordinary ones where the limit has headroom: a person waits for the answer.
	Urgent bool `json:"urgent,omitempty"`
	// Flow names what the call belongs to in all its limits, e.g. a tenant or a user; see reservations.Charge. Empty
	// means its batch, in the first limit.
	Flow string `json:"flow,omitempty"`
	// Priority is one of the limits' priorities; see reservations.Charge.
	Priority string `json:"priority,omitempty"`
	// Charge is what the task takes from each meter of the limit. It must not name meters that the limit does not have.
	Charge reservations.Tokens `json:"charge,omitempty"`
	// Batch says which request of a batch file the call is. Nil for any other.
	Batch *tasks.BatchRef `json:"batch,omitempty"`
	// Also are charges of narrower limits, a tenant's or a model's, the narrowest first; see Chat. Make them with
	// Endpoint.Charge.
	Also []reservations.Charge `json:"also,omitempty"`
	// Request is the body of the call, sent as it is.
	Request json.RawMessage `json:"request"`
}

// NewCall returns the task for a request body that takes from limit. Meters are as for NewChat; a meter of which the
// endpoint takes nothing (the tokens of moderations) is left out. The error is a *RequestError, matches
// ErrUnknownEndpoint, or is a *reservations.ChargeError that matches reservations.ErrUnknownMeter.
func NewCall(endpoint Endpoint, limit string, request json.RawMessage, meters ...string) (Call, error) {
	charge, err := endpoint.Charge(limit, "", request, meters...)
	if err != nil {
		return Call{}, err
	}
	return Call{Endpoint: endpoint, Limit: limit, Charge: charge.Tokens, Request: request}, nil
}

// Charge returns what a request body takes from one limit, e.g. for Call.Also. Limit, meters and the error are those of
// NewCall; an empty limit takes nothing.
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
	charge.Tokens = reservations.Tokens{}
	for _, name := range meters {
		n, ok := estimate.of(name)
		if !ok {
			return reservations.Charge{}, unknownMeter(limit, key, name)
		}
		if charge.Tokens[name] = n; n == 0 && e != EndpointChat {
			delete(charge.Tokens, name)
		}
	}
	return charge, nil
}

// TaskType implements tasks.Args.
func (Call) TaskType() string { return CallType }

// Charges implements tasks.Charger: those of Also, then that of Limit, as for Chat.
func (c Call) Charges() []reservations.Charge { return c.chat().Charges() }

// TaskOptions implements tasks.Optioner: a call of a batch has an ID of its own, so that it is enqueued once.
func (c Call) TaskOptions() tasks.Options { return optionsOf(c.Batch) }

// chat is the same with another type: what a call takes and has used does not depend on where it goes.
func (c Call) chat() Chat {
	return Chat{
		Also: c.Also, Limit: c.Limit, Key: c.Key, Charge: c.Charge, Urgent: c.Urgent, Flow: c.Flow,
		Priority: c.Priority,
		Batch:    c.Batch,
	}
}
