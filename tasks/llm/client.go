package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/httpcall"
	"github.com/headway-go/headway/internal/intake"
	"github.com/headway-go/headway/internal/openai"
	"github.com/headway-go/headway/internal/redact"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// contentType is that of requests and answers.
const contentType = "application/json"

// messageLength is how much of a provider's message an Error keeps, in bytes.
const messageLength = 500

// bodyLength is how much of an answer that is an error an Error keeps, in bytes.
const bodyLength = 64 << 10

// Client calls a provider, once for each call. Safe for concurrent use.
type Client struct {
	config  Config
	secrets redact.Secrets
}

// Answer is what a provider answered.
type Answer struct {
	// Body is the answer as it came, a JSON object.
	Body json.RawMessage
	// Usage is what the provider counted, by meter: MeterInput, MeterOutput, MeterTokens and MeterTokensPerDay. Nil
	// where it did not say.
	Usage reservations.Tokens
	// RequestID is the provider's name for the call; empty where it gave none.
	RequestID string
}

// NewClient returns a client. It does not call the provider. The error joins every fault of config, each a
// *reservations.FieldError. No text holds the key.
func NewClient(config Config) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Client{config: config, secrets: redact.New(append(redact.Proxies(), config.APIKey)...)}, nil
}

// Close lets go of idle connections. The client can still be used.
func (c *Client) Close() { c.config.HTTPClient.CloseIdleConnections() }

// Run makes the call once, and passes to use what was really used, in the meters that the call is charged for:
//
//   - the provider's own count for an answer, where it says;
//   - no tokens for a request that the provider rejected (a 4xx other than 408); the request itself counts as charged;
//   - nothing, not even the request, where the body can't be sent or no connection came about.
//
// In all other cases use is not called and the estimate stands: the provider may have counted the call.
//
// Run passes to saw, where one is given, what the provider says is left of its limits: of the meters that the call is
// charged for, as Config.Sync and Config.Meters have it. Run calls use and each saw at most once, before it returns.
//
// The error is an *Error, or that of NewCall for a body that can't be sent. It matches reservations.ErrNotCalled if
// nothing was sent, and tasks.ErrPermanent if no retry can succeed. It is wrapped in a *reservations.RetryAfterError if
// the provider refused the call (429, 503) and named a time.
func (c *Client) Run(
	ctx context.Context, call Call, use func(reservations.Tokens), saw ...func(reservations.Observation),
) (Answer, error) {
	var answer Answer
	var header http.Header
	sent, to := time.Now(), call.Endpoint.path()
	called, end := traceCall(ctx, to, call.Request)
	estimate, err := openai.Assess(string(to), call.Request)
	if err != nil {
		err = reservations.NotCalled(tasks.Permanent(err))
	} else {
		answer, header, err = c.send(called, to, call.Request)
	}
	end(answer, err)
	c.report(ctx, call, estimate.Tokens, answer, err, use)
	if o, ok := c.config.observation(call.provider().Tokens, header, time.Since(sent)); ok {
		for _, tell := range saw {
			if tell != nil {
				tell(o)
			}
		}
	}
	return answer, err
}

// send sends the request as it is. The header is that of any answer.
func (c *Client) send(ctx context.Context, to Endpoint, request []byte) (Answer, http.Header, error) {
	ctx, mark := httpcall.Watch(ctx)
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	res, err := c.post(ctx, to, request)
	if err != nil {
		return Answer{}, nil, mark(&Error{Endpoint: to, Err: c.secrets.Error(err, messageLength)})
	}
	e := &Error{
		Endpoint: to, StatusCode: res.StatusCode, RequestID: c.redact(res.Header.Get("X-Request-Id")),
		RetryAfter: openai.RetryAfter(res.StatusCode, res.Header),
	}
	if res.StatusCode >= http.StatusBadRequest {
		// An error stays what its status says, however long its page is.
		text, _ := io.ReadAll(io.LimitReader(res.Body, intake.Free))
		_ = res.Body.Close()
		c.explain(e, text)
		return Answer{}, res.Header, e.marked()
	}
	body, release, err := c.config.Memory.Read(ctx, res.Body, c.config.MaxBody)
	defer release()
	err = errors.Join(err, res.Body.Close())
	body = c.secrets.Bytes(body)
	switch {
	case errors.Is(err, intake.ErrTooLarge):
		e.Err = fmt.Errorf("%w: above %d bytes", ErrTooLarge, c.config.MaxBody)
	case err != nil:
		e.Err = c.secrets.Error(err, messageLength)
	default:
		e.Message = c.unusable(res, body)
	}
	if e.Err != nil || e.Message != "" {
		return Answer{}, res.Header, e.marked()
	}
	answer := Answer{Body: body, RequestID: e.RequestID}
	if used, ok := openai.UsageOf(body); ok {
		answer.Usage = openai.Metered(used)
	}
	return answer, res.Header, nil
}

// post makes the request, once. The caller closes the body of the answer.
func (c *Client) post(ctx context.Context, to Endpoint, body []byte) (*http.Response, error) {
	url := strings.TrimSuffix(c.config.BaseURL, "/") + strings.TrimPrefix(string(to), "/v1")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", contentType)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "headway")
	if c.config.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.config.APIKey)
	}
	for name, values := range c.config.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	res, err := c.config.HTTPClient.Do(req)
	if err == nil && res.StatusCode >= http.StatusBadRequest && packing(res.Header) != "" {
		_ = res.Body.Close()
		res.Body = io.NopCloser(strings.NewReader(c.packedError(res.Header)))
	}
	return res, err
}

// unusable says why an answer with a good status is none, or nothing.
func (c *Client) unusable(res *http.Response, body []byte) string {
	// Without a copy of any part of the body, which may be large.
	var object *struct {
		Error             *problem
		ID, Choices, Data there
	}
	switch err := json.Unmarshal(body, &object); {
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Sprintf("redirected to %q: call that instead", c.redact(res.Header.Get("Location")))
	case len(bytes.TrimSpace(body)) == 0:
		return "the answer is empty"
	case err != nil || object == nil:
		return fmt.Sprintf("the answer, of type %q, is not a JSON object", c.redact(res.Header.Get("Content-Type")))
	case object.Error != nil && !bool(object.ID || object.Choices || object.Data):
		// Some gateways report errors so. A response that has failed has an error too, and an ID.
		return "the answer is an error: " + c.redact(string(*object.Error))
	default:
		return ""
	}
}

// there says whether a field is there and not null; what it holds is not kept.
type there bool

// UnmarshalJSON implements json.Unmarshaler.
func (t *there) UnmarshalJSON(text []byte) error {
	*t = string(text) != "null"
	return nil
}

// problem is the beginning of the field that holds an error.
type problem string

// UnmarshalJSON implements json.Unmarshaler. It is not called for null.
func (p *problem) UnmarshalJSON(text []byte) error {
	*p = problem(text[:min(len(text), bodyLength)])
	return nil
}

// explain adds what the body of an error says.
func (c *Client) explain(e *Error, text []byte) {
	var answer struct {
		Error struct{ Code, Type, Param, Message word }
	}
	_ = json.Unmarshal(text, &answer) // an error of another shape has none of them
	said := answer.Error
	e.Code, e.Type, e.Param = c.redact(string(said.Code)), c.redact(string(said.Type)), c.redact(string(said.Param))
	e.Message = c.redact(string(said.Message))
	if e.Code == "" && e.Message == "" { // an error of another shape, or a gateway's page
		e.Message = c.redact(strings.TrimSpace(string(text)))
	}
	if e.StatusCode == http.StatusUnauthorized {
		e.Message = "" // providers repeat a part of the key where they refuse it
		return
	}
	e.Body = c.secrets.Bytes(text)
	e.Body = e.Body[:min(len(e.Body), bodyLength)]
}

// word is a text of an error; gateways send some as numbers.
type word string

// UnmarshalJSON implements json.Unmarshaler. Null is the empty text.
func (w *word) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		s = string(text)
	}
	*w = word(s)
	return nil
}

// redact takes the key out of a text from outside and shortens it.
func (c *Client) redact(text string) string { return redact.Cut(c.secrets.Text(text), messageLength) }

// rejected says whether the provider turned the request away instead of working on it.
func rejected(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.StatusCode >= 400 && e.StatusCode < 500 && e.StatusCode != http.StatusRequestTimeout
}
