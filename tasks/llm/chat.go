package llm

import (
	"encoding/json"
	"slices"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// TaskType is the type of chat tasks.
const TaskType = "llm:chat"

// The meters that a chat can be charged for. Others in a limit are not taken from.
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

// Chat is one chat completion as a task. Make it with NewChat, then set Key and CustomID as needed.
type Chat struct {
	// Also are charges of narrower limits, a tenant's or a model's, the narrowest first: they are asked before the chat's own, which is
	// the provider's. Make them with Endpoint.Charge. What the call really used settles all of them.
	Also []reservations.Charge `json:"also,omitempty"`
	// Limit is the name of the limit that the task takes from. Empty means that it takes from those of Also only.
	Limit string `json:"limit,omitempty"`
	// Key chooses the bucket of the limit, e.g. a tenant or a model.
	Key string `json:"key,omitempty"`
	// CustomID is the caller's own name for the request, as in a batch file. It is not sent.
	CustomID string `json:"custom_id,omitempty"`
	// Urgent lets the task start before ordinary ones where the limit has headroom: somebody waits for the answer.
	Urgent bool `json:"urgent,omitempty"`
	// Flow names what the chat belongs to in all its limits, e.g. a tenant or a user; see reservations.Charge. Empty means
	// its batch, in the first limit.
	Flow string `json:"flow,omitempty"`
	// Priority is one of the limits' priorities; see reservations.Charge.
	Priority string `json:"priority,omitempty"`
	// Batch says which request of a batch file the chat is. Nil for any other.
	Batch *tasks.BatchRef `json:"batch,omitempty"`
	// Charge is what the task takes from each meter of the limit. It must not name meters that the limit does not have.
	Charge reservations.Tokens `json:"charge,omitempty"`
	// Request is the body of the call, sent as it is.
	Request json.RawMessage `json:"request"`
}

// NewChat returns the task for a request body that takes from limit. Meters are names of the limit's meters; each must
// be one of those that have a constant here. Without any it takes from MeterRequests and MeterTokens.
// An empty limit makes an unlimited task. The error is a *RequestError, or a *reservations.ChargeError that matches reservations.ErrUnknownMeter.
func NewChat(limit string, request json.RawMessage, meters ...string) (Chat, error) {
	charge, err := EndpointChat.Charge(limit, "", request, meters...)
	if err != nil {
		return Chat{}, err
	}
	return Chat{Limit: limit, Charge: charge.Tokens, Request: request}, nil
}

// TaskType implements tasks.Args.
func (Chat) TaskType() string { return TaskType }

// Charges implements tasks.Charger: those of Also, then the chat's own where it has a limit. What the chat says of
// urgency, flow and priority counts for all, see tasks.Share.
func (c Chat) Charges() []reservations.Charge {
	charges := slices.Clone(c.Also)
	if c.Limit != "" {
		charges = append(charges, reservations.Charge{Limit: c.Limit, Key: c.Key, Tokens: c.Charge})
	}
	return tasks.Share(charges, reservations.Charge{Urgent: c.Urgent, Flow: c.Flow, Priority: c.Priority}, c.Batch)
}

// used is what a call really used, in the meters that the chat is charged for: the others may not exist.
func (c Chat) used(u Usage) reservations.Tokens {
	used := reservations.Tokens{}
	for _, charge := range c.Charges() {
		for name := range charge.Tokens {
			if n, ok := u.of(name); ok && name != MeterRequests && name != MeterRequestsPerDay {
				used[name] = n
			}
		}
	}
	return used
}

// reserved is the most that was reserved of each meter.
func (c Chat) reserved() reservations.Tokens {
	reserved := reservations.Tokens{}
	for _, charge := range c.Charges() {
		for name, n := range charge.Tokens {
			reserved[name] = max(reserved[name], n)
		}
	}
	return reserved
}

// nothing is the use of a call that never reached the provider.
func (c Chat) nothing() reservations.Tokens { return reservations.Unused(c.Charges()...) }

// own are the tokens of the provider's limit.
func (c Chat) own() reservations.Tokens { return c.Charge }
