package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
)

// Endpoint is a path of the API, as it stands in the url of a batch file's line.
type Endpoint string

// The endpoints that a Call can be made to.
const (
	EndpointChat        Endpoint = openai.Chat        // "/v1/chat/completions"
	EndpointResponses   Endpoint = openai.Responses   // "/v1/responses"
	EndpointEmbeddings  Endpoint = openai.Embeddings  // "/v1/embeddings"
	EndpointCompletions Endpoint = openai.Completions // "/v1/completions"
	EndpointModerations Endpoint = openai.Moderations // "/v1/moderations"
)

// ErrUnknownEndpoint is matched for an Endpoint without a constant in this package.
var ErrUnknownEndpoint = openai.ErrUnknownEndpoint

// Charge returns what a request body takes from one limit, e.g. from a tenant's for Terms.Taken. Limit, meters and the
// error are as for NewCall. Tokens are estimated, mostly too high:
//
//   - chats: the messages, tools and the format of the response, 4 bytes a token, and 4 tokens more a message; images
//     with 1500 tokens (85 with "detail": "low"), other attachments, encrypted reasoning and long base64 with a token
//     for 100 bytes; max_completion_tokens, else max_tokens, else 1024; times n
//   - responses: input, instructions and the definitions of tools and of the format; max_output_tokens, else 1024
//   - embeddings: the input only, 4 bytes a token, or as many as it has token ids
//   - completions: the prompts; max_tokens, else 16 (the API's own default), for each prompt and each of n or best_of
//   - moderations: no tokens, they are limited by requests
func (e Endpoint) Charge(limit, key string, request json.RawMessage, meters ...string) (reservations.Charge, error) {
	estimate, err := openai.Assess(string(e.path()), request)
	if err != nil {
		return reservations.Charge{}, err
	}
	charge := reservations.Charge{Limit: limit, Key: key}
	if limit == "" {
		return charge, &reservations.FieldError{
			Field: "limit", Problem: "must not be empty: name the limit of the call; a Call without Taken is unlimited",
		}
	}
	if len(meters) == 0 {
		meters = []string{MeterRequests, MeterTokens}
	}
	var other string
	if charge.Tokens, other = openai.Charged(estimate, meters); other != "" {
		return reservations.Charge{}, unknownMeter(limit, key, other)
	}
	return charge, nil
}

// unknownMeter is the error for a meter that says nothing about requests and tokens.
func unknownMeter(limit, key, name string) error {
	known, hint := openai.Meters(), ""
	if meant := openai.Meant(name); meant != "" {
		hint = fmt.Sprintf("; did you mean %q?", meant)
	}
	last := len(known) - 1
	return &reservations.ChargeError{
		Charge: reservations.Charge{Limit: limit, Key: key}, Meter: name, Err: reservations.ErrUnknownMeter,
		Problem: fmt.Sprintf("a call can be charged for %s and %s only%s",
			strings.Join(known[:last], ", "), known[last], hint),
	}
}

// path is the endpoint itself, or EndpointChat for the empty one.
func (e Endpoint) path() Endpoint { return cmp.Or(e, EndpointChat) }

// call is what the endpoint's calls are named in errors.
func (e Endpoint) call() string {
	if e.path() == EndpointChat {
		return "chat completion"
	}
	return strings.TrimPrefix(string(e), "/v1/")
}
