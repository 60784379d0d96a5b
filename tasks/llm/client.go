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

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/text/redact"
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
	// StatusCode is that of the answer, mostly 200.
	StatusCode int
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
//   - the provider's own count for an answer, where it says, also if the answer is an error with a good status;
//   - no tokens for a request that the provider rejected (a 4xx other than 408, or a refusal within a good status); the
//     request itself counts as charged;
//   - nothing, not even the request, where the body can't be sent or no connection came about.
//
// In all other cases use is not called and the estimate stands: the provider may have counted the call.
//
// Run passes to saw, where one is given, what the provider says is left of its limits: of the meters that the call is
// charged for, as Config.Sync and Config.Meters have it. Run calls use and each saw at most once, before it returns.
//
// The error is an *Error, or that of NewCall for a body that can't be sent. It matches reservations.ErrNotCalled if
// nothing was sent, and tasks.ErrPermanent if no retry can succeed. It is wrapped in a *reservations.RetryAfterError if
// the provider refused the call (Error.Refused).
func (c *Client) Run(
	ctx context.Context, call Call, use func(reservations.Tokens), saw ...func(reservations.Observation),
) (Answer, error) {
	var answer Answer
	var header http.Header
	sent, to := time.Now(), call.Endpoint.path()
	called, end := traceCall(ctx, to, call.Request)
	estimate, err := openai.Assess(string(to), call.Request)
	if err != nil {
		err = httpcall.NotCalled(tasks.Permanent(err))
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
	if err != nil {
		return Answer{}, err
	}
	return answer, nil
}

// send sends the request as it is. The header is that of any answer, and so are the usage and the status.
func (c *Client) send(ctx context.Context, to Endpoint, request []byte) (Answer, http.Header, error) {
	ctx, mark := httpcall.Watch(ctx, c.config.HTTPClient)
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	res, err := c.post(ctx, to, request)
	if err != nil {
		return Answer{}, nil, mark(&Error{Endpoint: to, Err: c.secrets.Error(err, messageLength)})
	}
	e := &Error{
		Endpoint: to, StatusCode: res.StatusCode, RequestID: c.redact(res.Header.Get("X-Request-Id")),
	}
	var body []byte
	if res.StatusCode >= http.StatusBadRequest {
		// An error stays what its status says, however long its page is.
		body, _ = io.ReadAll(io.LimitReader(res.Body, intake.Free))
		_ = res.Body.Close()
	} else {
		var release func()
		body, release, err = c.config.Memory.Read(ctx, res.Body, c.config.MaxBody)
		defer release()
		err = errors.Join(err, res.Body.Close())
	}
	body = bytes.TrimPrefix(c.secrets.Bytes(body), []byte("\ufeff"))
	switch {
	case errors.Is(err, intake.ErrTooLarge):
		e.Err = fmt.Errorf("%w: above %d bytes", ErrTooLarge, c.config.MaxBody)
	case err != nil:
		e.Err = c.secrets.Error(err, messageLength)
	default:
		c.judge(e, res.Header, body)
	}
	answer := Answer{StatusCode: res.StatusCode, RequestID: e.RequestID}
	if used, ok := openai.UsageOf(body); ok && res.StatusCode < http.StatusBadRequest {
		answer.Usage = openai.Metered(used)
	}
	if e.Err != nil || e.kind != httpcall.Good {
		return answer, res.Header, e.marked()
	}
	answer.Body = body
	return answer, res.Header, nil
}

// judge adds what an answer means, and what the provider says of an error.
func (c *Client) judge(e *Error, h http.Header, body []byte) {
	v := openai.Judge(openai.Reply{
		Endpoint: string(e.Endpoint.path()), Status: e.StatusCode, Header: c.shown(h), Body: body,
	}, time.Now())
	e.kind, e.RetryAfter, e.Unusable = v.Kind, v.Wait, c.redact(v.Form)
	e.Code, e.Type, e.Param = c.redact(v.Code), c.redact(v.Type), c.redact(v.Param)
	e.Message = c.redact(v.Message)
	switch {
	case e.StatusCode == http.StatusUnauthorized:
		e.Message = "" // providers repeat a part of the key where they refuse it
	case v.Packed: // it may hold the key, which no search finds there
	case e.kind != httpcall.Good && e.kind != httpcall.Unusable:
		e.Body = bytes.Clone(body[:min(len(body), bodyLength)])
	}
}

// shown are the headers without the key.
func (c *Client) shown(h http.Header) http.Header {
	shown := http.Header{}
	for name, values := range h {
		for _, value := range values {
			shown[name] = append(shown[name], c.secrets.Text(value))
		}
	}
	return shown
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
	return c.config.HTTPClient.Do(req)
}

// redact takes the key out of a text from outside and shortens it.
func (c *Client) redact(text string) string { return redact.Cut(c.secrets.Text(text), messageLength) }
