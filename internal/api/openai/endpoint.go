// Package openai reads the format of OpenAI's API, which other providers use too: the bodies of requests, the usage in
// answers, and the headers about rate limits. It makes no calls.
package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/api/estimates"
)

// The known endpoints: paths of the API, as in the url of a batch file's line.
const (
	Chat        = "/v1/chat/completions"
	Responses   = "/v1/responses"
	Embeddings  = "/v1/embeddings"
	Completions = "/v1/completions"
	Moderations = "/v1/moderations"
)

// ErrUnknownEndpoint is matched for an endpoint that is not listed here.
var ErrUnknownEndpoint = errors.New("llm: unknown endpoint")

// Endpoints returns the known endpoints.
func Endpoints() []string { return []string{Chat, Responses, Embeddings, Completions, Moderations} }

// prefix is what providers put before the endpoints: OpenAI and most others /v1, Azure nothing or /openai/v1, Zhipu
// /v4, Volcengine /api/v3, DashScope /compatible-mode/v1, Gemini /v1beta/openai, Fireworks /inference/v1, Cloudflare
// /ai/v1, DeepInfra /v1/openai, Databricks /serving-endpoints.
var prefix = regexp.MustCompile(
	`^/?((openai|api|compatible-mode|inference|ai|serving-endpoints|v1beta|v[1-9])/)?((v[1-9]|openai)/)?`)

// version is the version of Azure's API behind an endpoint, which the address of the provider says.
var version = regexp.MustCompile(`\?api-version=[0-9a-z-]+$`)

// Canonical is the known endpoint that the url of a batch line means, with or without what its provider puts before it.
// It is url itself if it means none.
func Canonical(url string) string {
	short := strings.TrimSuffix(version.ReplaceAllString(url[len(prefix.FindString(url)):], ""), "/")
	if endpoint := "/v1/" + short; slices.Contains(Endpoints(), endpoint) {
		return endpoint
	}
	return url
}

// deployment is the url of a call of a deployment of Azure.
var deployment = regexp.MustCompile(`^/?openai/deployments/([^/?]+)(/[^?]+)(?:\?.*)?$`)

// Deployment returns the deployment that the url of a batch line names, as Azure has it, and the rest of the url. The
// name is empty if there is none, and rest is url then.
func Deployment(url string) (name, rest string) {
	if match := deployment.FindStringSubmatch(url); match != nil {
		return match[1], match[2]
	}
	return "", url
}

// Estimate is what a request says of itself, before it is sent.
type Estimate struct {
	// Tokens is how many tokens the call may take, mostly too many.
	estimates.Tokens
	// Model is the model that the request names.
	Model string
	// Open says that nothing bounds the answer: OutputDefault is a guess.
	Open bool
}

// Assess estimates the tokens of a request to an endpoint, by the rules that llm.Endpoint.Charge lists. The error
// matches ErrUnknownEndpoint, or wraps a *reservations.FieldError with the field of the body ("request" for the body
// itself).
func Assess(endpoint string, request json.RawMessage) (Estimate, error) {
	if known := Endpoints(); !slices.Contains(known, endpoint) {
		return Estimate{}, fmt.Errorf("%w %.80q, known: %s", ErrUnknownEndpoint, endpoint, strings.Join(known, ", "))
	}
	return assess(endpoint, request, false)
}

// assess is Assess for any endpoint. Streamed allows an answer in parts.
func assess(endpoint string, request json.RawMessage, streamed bool) (Estimate, error) {
	var b body
	if err := json.Unmarshal(request, &b.fields); err != nil || b.fields == nil {
		b.fault("request", "is not a JSON object")
	}
	if !streamed && string(b.fields["stream"]) == "true" {
		b.fault("stream", "is not supported: answers are read whole")
	}
	e := b.assess(endpoint)
	if b.err != nil {
		name := strings.TrimSuffix(strings.TrimPrefix(endpoint, "/v1/"), "/completions")
		return Estimate{}, fmt.Errorf("%s request: %w", name, b.err)
	}
	return e, nil
}

// ModelOf is the model that a request or an answer names; empty where it names none.
func ModelOf(body json.RawMessage) string {
	var named struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &named) // without a model then
	return named.Model
}
