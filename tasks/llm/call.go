package llm

import (
	"encoding/json"
	"slices"

	"github.com/headway-go/headway/reservations"
)

// CallType is the type of the tasks that a Call makes.
const CallType = "llm:call"

// Call is one request to an endpoint as a task: a chat completion, a response, embeddings, a completion or a moderation. Make it with
// NewCall, then set Key and CustomID as needed. Chat is the same for EndpointChat only, and another task type.
type Call struct {
	// Endpoint is where the request goes.
	Endpoint Endpoint `json:"endpoint"`
	// Limit is the name of the limit that the task takes from. Empty means that the task takes from no more than Also.
	Limit string `json:"limit,omitempty"`
	// Key chooses the bucket of the limit, e.g. a tenant or a model.
	Key string `json:"key,omitempty"`
	// CustomID is the caller's own name for the request, as in a batch file. It is not sent.
	CustomID string `json:"custom_id,omitempty"`
	// Charge is what the task takes from each meter of the limit. It must not name meters that the limit does not have.
	Charge reservations.Tokens `json:"charge,omitempty"`
	// Also are further charges, narrowest first, e.g. of a tenant. They are asked before that of Limit.
	Also []reservations.Charge `json:"also,omitempty"`
	// Request is the body of the call, sent as it is.
	Request json.RawMessage `json:"request"`
}

// NewCall returns the task for a request body that takes from limit. Meters are as for NewChat; a meter of which the endpoint takes nothing
// (the tokens of moderations) is left out. The error is a *RequestError, matches ErrUnknownEndpoint, or is a *reservations.ChargeError that
// matches reservations.ErrUnknownMeter.
func NewCall(endpoint Endpoint, limit string, request json.RawMessage, meters ...string) (Call, error) {
	estimate, err := endpoint.Estimate(request)
	if err != nil {
		return Call{}, err
	}
	call := Call{Endpoint: endpoint, Limit: limit, Request: request}
	if limit == "" {
		return call, nil
	}
	call.Charge, err = chargeFor(limit, estimate, meters)
	for name, n := range call.Charge {
		if n == 0 {
			delete(call.Charge, name)
		}
	}
	return call, err
}

// chargeFor is what a request takes from meters, by default MeterRequests and MeterTokens.
func chargeFor(limit string, estimate Usage, meters []string) (reservations.Tokens, error) {
	if len(meters) == 0 {
		meters = []string{MeterRequests, MeterTokens}
	}
	charge := reservations.Tokens{}
	for _, name := range meters {
		n, ok := estimate.of(name)
		if !ok {
			return nil, unknownMeter(limit, name)
		}
		charge[name] = n
	}
	return charge, nil
}

// TaskType implements tasks.Args.
func (Call) TaskType() string { return CallType }

// Charges implements tasks.Charger: those of Also, then that of Limit.
func (c Call) Charges() []reservations.Charge {
	if c.Limit == "" {
		return c.Also
	}
	return append(slices.Clone(c.Also), reservations.Charge{Limit: c.Limit, Key: c.Key, Tokens: c.Charge})
}

// taken are the tokens that the task takes, whatever the limit. A name that several limits have is the same thing in all.
func (c Call) taken() reservations.Tokens {
	taken := reservations.Tokens{}
	for _, charge := range c.Charges() {
		for name, n := range charge.Tokens {
			taken[name] = max(n, taken[name])
		}
	}
	return taken
}

// used is what a call really used, in the meters that it is charged for: the others may not exist.
func (c Call) used(u Usage) reservations.Tokens {
	used := reservations.Tokens{}
	for name := range c.taken() {
		if n, ok := u.of(name); ok && name != MeterRequests && name != MeterRequestsPerDay {
			used[name] = n
		}
	}
	return used
}

// nothing is the use of a call that never reached the provider.
func (c Call) nothing() reservations.Tokens {
	used := c.taken()
	for name := range used {
		used[name] = 0
	}
	return used
}
