package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/headway-go/headway/internal/redact"
	"github.com/headway-go/headway/internal/retryheader"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/intake"
)

// Client makes requests, once for each call. Safe for concurrent use.
type Client struct {
	config  Config
	secrets redact.Secrets
}

// NewClient returns a client. It calls nobody. The error joins every fault of config.
func NewClient(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Client{config: config.withDefaults(), secrets: config.redacting()}, nil
}

// Close lets go of idle connections. The client can still be used.
func (c *Client) Close() { c.config.HTTPClient.CloseIdleConnections() }

// Hold lets the answer that is got with the returned context count against Config.Memory until release is called, and not only while
// the request is made. One request is made with each such context.
func (c *Client) Hold(ctx context.Context) (held context.Context, release func()) {
	return c.config.Memory.Hold(ctx)
}

// Run makes the request once. It reports to use, where use is not nil, that nothing was used of what the request takes
// if it never reached the service: it can't be sent, or no connection came about. In all other cases use is not called
// and what the request takes stands.
//
// The error is an *Error, or a *RequestError for a request that can't be sent, which matches ErrHostNotAllowed where its
// host is not listed. It matches tasks.ErrPermanent where no retry mends it, and is wrapped in a *tasks.RetryAfterError
// where the service refused the call (429, 503) and named a time.
func (c *Client) Run(ctx context.Context, r Request, use func(reservations.Tokens)) (Answer, error) {
	answer, err := c.send(ctx, r)
	if use != nil && unsent(err) && len(r.Taken) > 0 {
		use(reservations.Unused(r.Taken...))
	}
	return answer, err
}

// send makes the request.
func (c *Client) send(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout(c.config.Timeout))
	defer cancel()
	request, secret, err := c.request(ctx, r)
	if err != nil {
		return Answer{}, tasks.Permanent(err)
	}
	res, err := c.config.HTTPClient.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the URL, which may hold what is nobody's business
		}
		return Answer{}, &Error{Err: c.secrets.Error(err, messageLength)}
	}
	defer func() { _ = res.Body.Close() }()
	body, release, err := c.config.Memory.Read(ctx, res.Body, c.config.MaxBody)
	defer release()
	if encoding := packing(res.Header); encoding != "" && len(body) > 0 {
		err = fmt.Errorf("%w as %q, which was not asked for", ErrPacked, redact.Cut(c.secrets.Text(encoding), packedLength))
		body = nil // no value would be found in it
	}
	answer := c.answer(res, body)
	switch {
	case err == nil && r.accepts(res.StatusCode):
		return answer, nil
	case errors.Is(err, ErrPacked):
	case errors.Is(err, intake.ErrTooLarge):
		err = fmt.Errorf("%w: above %d bytes", ErrTooLarge, c.config.MaxBody)
	case err != nil:
		err = c.secrets.Error(fmt.Errorf("read the answer: %w", err), messageLength)
	}
	return Answer{}, kindOf(&Error{
		Answer: answer, RetryAfter: retryheader.After(res.Header), Err: err, secret: secret,
		message: redact.Cut(string(answer.Body[:min(len(answer.Body), messageLength+1)]), messageLength),
	})
}

// answer is what came, without the secrets.
func (c *Client) answer(res *http.Response, body []byte) Answer {
	header := map[string]string{}
	for name, value := range kept(res.Header) {
		header[c.secrets.Text(name)] = c.secrets.Text(value)
	}
	return Answer{
		StatusCode: res.StatusCode, Header: header,
		RequestID: c.secrets.Text(requestID(res.Header)), Body: c.secrets.Bytes(body),
	}
}

// packing is how a body is packed that the transport has not unpacked; empty for one that is as it is.
func packing(h http.Header) string {
	encoding := strings.Join(h.Values("Content-Encoding"), ", ")
	if strings.EqualFold(encoding, "identity") {
		return ""
	}
	return encoding
}

// kindOf marks a failure by what a worker should do.
func kindOf(e *Error) error {
	status := e.Answer.StatusCode
	switch {
	case e.Permanent():
		return tasks.Permanent(e)
	case e.RetryAfter > 0 && e.Err == nil && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
		return tasks.RetryAfter(e.RetryAfter, e)
	default:
		return e
	}
}

// request makes what is sent, and says whether a secret is in it. The error is a *RequestError.
func (c *Client) request(ctx context.Context, r Request) (*http.Request, bool, error) {
	target, to, err := c.config.target(r)
	if err != nil {
		return nil, false, err
	}
	header, secret, err := c.config.header(r, to)
	if err != nil {
		return nil, false, err
	}
	body, kind := r.content()
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, false, &RequestError{Field: "url", Problem: "can't be sent"}
	}
	if kind != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", kind)
	}
	request.Header = header
	return request, secret, nil
}

// unsent says whether the service can't have counted the call.
func unsent(err error) bool {
	if _, ok := errors.AsType[*RequestError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
