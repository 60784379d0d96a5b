package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Endpoint is a path of the API, as it stands in the url of a batch file's line.
type Endpoint string

// The endpoints that a Call can be made to.
const (
	EndpointChat        Endpoint = "/v1/chat/completions"
	EndpointResponses   Endpoint = "/v1/responses"
	EndpointEmbeddings  Endpoint = "/v1/embeddings"
	EndpointCompletions Endpoint = "/v1/completions"
	EndpointModerations Endpoint = "/v1/moderations"
)

// ErrUnknownEndpoint is matched if this package has no such Endpoint.
var ErrUnknownEndpoint = errors.New("llm: unknown endpoint")

// Endpoints returns the endpoints that a Call can use.
func Endpoints() []Endpoint {
	return []Endpoint{EndpointChat, EndpointResponses, EndpointEmbeddings, EndpointCompletions, EndpointModerations}
}

// Validate returns an error that matches ErrUnknownEndpoint and lists the known ones, or nil.
func (e Endpoint) Validate() error {
	known := Endpoints()
	if slices.Contains(known, e) {
		return nil
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	return fmt.Errorf("%w %.80q, known: %s", ErrUnknownEndpoint, string(e), strings.Join(names, ", "))
}

// Estimate is what a request says of itself, before it is sent.
type Estimate struct {
	// Usage is how many tokens the call may take, mostly too many.
	Usage
	// Model is the model that the request names.
	Model string
	// Open says that nothing bounds the answer: OutputDefault is a guess.
	Open bool
}

// Estimate returns before a call how many tokens it may take, mostly too many:
//
//   - chats: the messages, tools and the format of the response, 4 bytes a token; images with 1500 tokens (85 with
//     "detail": "low"); max_completion_tokens, else max_tokens, else OutputDefault; times n
//   - responses: input, instructions and the definitions of tools and of the format; max_output_tokens, else
//     OutputDefault
//   - embeddings: the input only, 4 bytes a token, or as many as it has token ids
//   - completions: the prompts; max_tokens, else 16 (the API's own default), for each prompt and each of n or best_of
//   - moderations: nothing, they are limited by requests
//
// The error is a *RequestError, or matches ErrUnknownEndpoint.
func (e Endpoint) Estimate(request json.RawMessage) (Estimate, error) {
	e = e.path()
	if err := e.Validate(); err != nil {
		return Estimate{}, err
	}
	var body map[string]json.RawMessage
	err := json.Unmarshal(request, &body)
	switch {
	case err != nil || body == nil:
		err = &RequestError{Field: "request", Problem: "is not a JSON object"}
	case string(body["stream"]) == "true":
		err = &RequestError{Field: "stream", Problem: "is not supported: answers are read whole"}
	default:
		var a Estimate
		if a, err = e.read(body); err == nil {
			_ = json.Unmarshal(body["model"], &a.Model) // the provider's to judge
			return a, nil
		}
	}
	if fault, ok := errors.AsType[*RequestError](err); ok {
		fault.Endpoint = e
	}
	return Estimate{}, err
}

func (e Endpoint) read(body map[string]json.RawMessage) (Estimate, error) {
	switch e {
	case EndpointChat:
		return chatOf(body)
	case EndpointResponses:
		return responseOf(body)
	case EndpointEmbeddings:
		input, err := inputsOf(body, "input")
		return Estimate{Usage: Usage{Input: float64(input.sum())}}, err
	case EndpointCompletions:
		return completionOf(body)
	case EndpointModerations:
		if absent(body["input"]) {
			return Estimate{}, &RequestError{Field: "input", Problem: "is missing"}
		}
		return Estimate{}, nil
	default:
		return Estimate{}, e.Validate()
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

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
