package llm

import (
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

// Client calls a provider, once for each call. Safe for concurrent use.
type Client struct {
	config      Config
	completions openai.ChatCompletionService
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
	options = append(options, config.Options...)
	options = append(options, option.WithMaxRetries(0)) // each attempt has to pass the limit
	return &Client{config: config, completions: openai.NewChatCompletionService(options...)}, nil
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
	sent := time.Now()
	answer, err := c.Do(ctx, chat)
	c.report(chat, answer, err, use)
	if o, ok := c.config.observation(chat, seenIn(answer, err), time.Since(sent)); ok {
		for _, tell := range saw {
			if tell != nil {
				tell(o)
			}
		}
	}
	return answer, err
}

// report tells use what was used.
func (c *Client) report(chat Chat, answer Answer, err error, use func(reservations.Tokens)) {
	if use == nil || len(chat.nothing()) == 0 {
		return
	}
	switch {
	case err == nil && answer.Usage.Total() > 0:
		use(chat.used(answer.Usage))
	case err == nil:
	case unsent(err):
		use(chat.nothing())
	case rejected(err):
		use(chat.used(Usage{}))
	}
}

// Do sends the request of chat as it is, once. The error is an *Error, or a *RequestError for a body that can't be
// sent; it matches tasks.ErrPermanent where no retry mends it, and is wrapped in a *tasks.RetryAfterError where the provider
// refused the call (429, 503) and named a time.
func (c *Client) Do(ctx context.Context, chat Chat) (Answer, error) {
	if _, err := Estimate(chat.Request); err != nil {
		return Answer{}, tasks.Permanent(err)
	}
	var (
		body []byte
		res  *http.Response
	)
	_, err := c.completions.New(ctx, openai.ChatCompletionNewParams{},
		option.WithRequestBody("application/json", []byte(chat.Request)), option.WithResponseBodyInto(&body), option.WithResponseInto(&res))
	if err != nil {
		return Answer{}, c.failure(res, err)
	}
	answer := Answer{Body: body, RequestID: res.Header.Get("X-Request-Id"), Seen: ReadHeaders(res.Header, time.Now())}
	if !isObject(body) {
		return Answer{}, &Error{
			StatusCode: res.StatusCode, RequestID: answer.RequestID, Seen: answer.Seen,
			Message: fmt.Sprintf("the answer is not a JSON object but %q", res.Header.Get("Content-Type")),
		}
	}
	answer.Usage, _ = usageOf(body)
	return answer, nil
}

func isObject(body []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(body, &object) == nil && object != nil
}

// failure translates what the official client returns. Its own error is not kept: it holds the request, and with it the key.
func (c *Client) failure(res *http.Response, err error) error {
	e := &Error{}
	if res != nil {
		e.StatusCode, e.RetryAfter, e.RequestID = res.StatusCode, asked(res.StatusCode, res.Header), res.Header.Get("X-Request-Id")
		e.Seen = ReadHeaders(res.Header, time.Now())
	}
	if api, ok := errors.AsType[*openai.Error](err); ok {
		e.Code, e.Type, e.Param, e.Message = c.redact(api.Code), c.redact(api.Type), c.redact(api.Param), c.redact(api.Message)
	}
	if e.StatusCode >= http.StatusBadRequest && e.Code == "" && e.Message == "" {
		// An error of another shape, or a gateway's page. The official client has read it, and put it back.
		text, _ := io.ReadAll(res.Body)
		e.Message = c.redact(strings.TrimSpace(string(text)))
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

// redact shortens a text from outside and takes the key out of it.
func (c *Client) redact(text string) string {
	if c.config.APIKey != "" {
		text = strings.ReplaceAll(text, c.config.APIKey, "[api key]")
	}
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
	if _, ok := errors.AsType[*RequestError](err); ok {
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
