package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// messageLength is how much of a provider's message an Error keeps, in bytes.
const messageLength = 500

// bodyLength is how much of an answer that is an error an Error keeps, in bytes.
const bodyLength = 64 << 10

// Client calls a provider, once for each call. Safe for concurrent use.
type Client struct {
	config Config
	api    openai.Client
}

// Answer is what a provider answered.
type Answer struct {
	// Body is the answer as it came, a JSON object.
	Body json.RawMessage
	// Usage is what the provider counted. Zero where it did not say.
	Usage Usage
	// RequestID is the provider's name for the call; empty where it gave none.
	RequestID string
	// Seen is what the headers told of the provider's limits.
	Seen []Seen
}

// NewClient returns a client. It does not call the provider. The error joins every fault of config.
func NewClient(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	options := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(config.HTTPClient), option.WithRequestTimeout(config.Timeout),
	}
	if config.BaseURL != "" {
		options = append(options, option.WithBaseURL(config.BaseURL))
	}
	if config.APIKey != "" {
		options = append(options, option.WithAPIKey(config.APIKey))
	}
	options = append(options, option.WithMiddleware(bounded(config.MaxBody)))
	options = append(options, config.Options...)
	options = append(options, option.WithMaxRetries(0)) // each attempt has to pass the limit
	return &Client{config: config, api: openai.Client{Options: options}}, nil
}

// Close lets go of idle connections. The client can still be used.
func (c *Client) Close() { c.config.HTTPClient.CloseIdleConnections() }

// Run is Do, and tells use what was really used, in the meters that the chat is charged for:
//
//   - the provider's own count for an answer, where it says;
//   - no tokens for a request that the provider rejected (a 4xx other than 408); the request itself counts as charged;
//   - nothing, not even the request, where the body can't be sent or no connection came about.
//
// In all other cases use is not called and the estimate stands: the provider may have counted the call.
//
// Run tells saw, where one is given, what the provider says is left of its limits: of the meters that the chat is charged for, as Config.Sync and
// Config.Meters have it. Run calls use and each saw at most once, before it returns.
func (c *Client) Run(ctx context.Context, chat Chat, use func(reservations.Tokens), saw ...func(reservations.Observation)) (Answer, error) {
	return c.run(ctx, EndpointChat, chat.Request, chat, use, saw)
}

// RunCall is Run for a call to any endpoint.
func (c *Client) RunCall(ctx context.Context, call Call, use func(reservations.Tokens), saw ...func(reservations.Observation)) (Answer, error) {
	return c.run(ctx, call.Endpoint, call.Request, call, use, saw)
}

// charged is what a task takes, and what of that was used.
type charged interface {
	own() reservations.Tokens
	used(u Usage) reservations.Tokens
	nothing() reservations.Tokens
}

func (c *Client) run(
	ctx context.Context, to Endpoint, request json.RawMessage, by charged, use func(reservations.Tokens), saw []func(reservations.Observation),
) (Answer, error) {
	sent := time.Now()
	answer, err := c.do(ctx, to, request)
	report(by, answer, err, use)
	if o, ok := c.config.observation(by.own(), seenIn(answer, err), time.Since(sent)); ok {
		for _, tell := range saw {
			if tell != nil {
				tell(o)
			}
		}
	}
	return answer, err
}

// report tells use what was used.
func report(by charged, answer Answer, err error, use func(reservations.Tokens)) {
	if use == nil || len(by.nothing()) == 0 {
		return
	}
	switch {
	case err == nil && answer.Usage.Total() > 0:
		use(by.used(answer.Usage))
	case err == nil:
	case unsent(err):
		use(by.nothing())
	case rejected(err):
		use(by.used(Usage{}))
	}
}

// Do sends the request of chat as it is, once. The error is an *Error, or a *RequestError for a body that can't be
// sent; it matches tasks.ErrPermanent where no retry mends it, and is wrapped in a *tasks.RetryAfterError where the provider
// refused the call (429, 503) and named a time.
func (c *Client) Do(ctx context.Context, chat Chat) (Answer, error) {
	return c.do(ctx, EndpointChat, chat.Request)
}

// DoCall is Do for a call to any endpoint. One that is unknown is a permanent error that matches ErrUnknownEndpoint.
func (c *Client) DoCall(ctx context.Context, call Call) (Answer, error) {
	return c.do(ctx, call.Endpoint, call.Request)
}

func (c *Client) do(ctx context.Context, to Endpoint, request json.RawMessage) (Answer, error) {
	if _, err := to.Estimate(request); err != nil {
		return Answer{}, tasks.Permanent(err)
	}
	var (
		body []byte
		res  *http.Response
	)
	err := c.api.Post(ctx, strings.TrimPrefix(string(to), "/v1/"), nil, nil,
		option.WithRequestBody("application/json", []byte(request)), option.WithResponseBodyInto(&body), option.WithResponseInto(&res))
	if err != nil {
		return Answer{}, c.failure(to, res, err)
	}
	answer := Answer{Body: body, RequestID: c.redact(res.Header.Get("X-Request-Id")), Seen: ReadHeaders(res.Header, time.Now())}
	if problem := c.unusable(res, body); problem != "" {
		return Answer{}, &Error{Endpoint: to.other(), StatusCode: res.StatusCode, RequestID: answer.RequestID, Seen: answer.Seen, Message: problem}
	}
	answer.Usage, _ = usageOf(body)
	return answer, nil
}

// unusable says why an answer with a good status is none, or nothing.
func (c *Client) unusable(res *http.Response, body []byte) string {
	var object map[string]json.RawMessage
	switch err := json.Unmarshal(body, &object); {
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Sprintf("redirected to %q: call that instead", c.redact(res.Header.Get("Location")))
	case len(bytes.TrimSpace(body)) == 0:
		return "the answer is empty"
	case err != nil || object == nil:
		return fmt.Sprintf("the answer, of type %q, is not a JSON object", c.redact(res.Header.Get("Content-Type")))
	case !absent(object["error"]) && absent(object["id"]) && absent(object["choices"]) && absent(object["data"]):
		// Some gateways tell of errors so. A response that has failed has an error too, and an ID.
		return "the answer is an error: " + c.redact(string(object["error"]))
	default:
		return ""
	}
}

func isObject(body []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(body, &object) == nil && object != nil
}

// failure translates what the official client returns. Its own error is not kept: it holds the request, and with it the key.
func (c *Client) failure(to Endpoint, res *http.Response, err error) error {
	e := &Error{Endpoint: to.other()}
	if errors.Is(err, ErrTooLarge) { // also where it is that of an error: it was not read to its end
		e.StatusCode, e.RequestID, e.Err = res.StatusCode, c.redact(res.Header.Get("X-Request-Id")), err
		return tasks.Permanent(e)
	}
	if res != nil {
		e.StatusCode, e.RetryAfter, e.RequestID = res.StatusCode, asked(res.StatusCode, res.Header), c.redact(res.Header.Get("X-Request-Id"))
		e.Seen = ReadHeaders(res.Header, time.Now())
	}
	if api, ok := errors.AsType[*openai.Error](err); ok {
		e.Code, e.Type, e.Param, e.Message = c.redact(api.Code), c.redact(api.Type), c.redact(api.Param), c.redact(api.Message)
	}
	if e.StatusCode >= http.StatusBadRequest {
		// The official client has read it, and put it back.
		text, _ := io.ReadAll(io.LimitReader(res.Body, bodyLength))
		if e.Code == "" && e.Message == "" { // an error of another shape, or a gateway's page
			e.Message = c.redact(strings.TrimSpace(string(text)))
		}
		if e.StatusCode != http.StatusUnauthorized {
			e.Body = c.without(text)
		}
	}
	if e.StatusCode == http.StatusUnauthorized {
		e.Message = "" // providers repeat a part of the key where they refuse it
	}
	if e.StatusCode < http.StatusBadRequest {
		e.Err = &causeError{text: c.redact(err.Error()), err: err}
	}
	switch {
	case e.Permanent():
		return tasks.Permanent(e)
	case e.RetryAfter > 0 && (e.StatusCode == http.StatusTooManyRequests || e.StatusCode == http.StatusServiceUnavailable):
		return tasks.RetryAfter(e.RetryAfter, e)
	default:
		return e
	}
}

// without is a text from outside without the key.
func (c *Client) without(text []byte) []byte {
	if c.config.APIKey == "" {
		return text
	}
	return bytes.ReplaceAll(text, []byte(c.config.APIKey), []byte("[api key]"))
}

// redact shortens a text from outside and takes the key out of it.
func (c *Client) redact(text string) string {
	text = string(c.without([]byte(text)))
	if len(text) > messageLength {
		text = strings.ToValidUTF8(text[:messageLength], "") + "…"
	}
	return text
}

// causeError shows the redacted text of an error and matches whatever the error matches.
type causeError struct {
	text string
	err  error
}

func (e *causeError) Error() string { return e.text }
func (e *causeError) Unwrap() error { return e.err }

// unsent says whether nothing was sent, or no connection came about, so that the provider can't have counted.
func unsent(err error) bool {
	if _, ok := errors.AsType[*RequestError](err); ok || errors.Is(err, ErrUnknownEndpoint) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// rejected says whether the provider turned the request away instead of working on it.
func rejected(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.StatusCode >= 400 && e.StatusCode < 500 && e.StatusCode != http.StatusRequestTimeout
}
