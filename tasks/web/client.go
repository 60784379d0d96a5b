package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/text/redact"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Client makes each request once. It is safe for concurrent use.
type Client struct {
	config  Config
	secrets redact.Secrets
}

// NewClient returns a client. It sends nothing. The error joins all faults of config, each a *reservations.FieldError.
func NewClient(config Config) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Client{config: config.withDefaults(), secrets: config.redacting()}, nil
}

// Close closes idle connections. The client can still be used.
func (c *Client) Close() { c.config.HTTPClient.CloseIdleConnections() }

// Run makes the request once. If the request can't be sent, or no connection was made, the error matches
// reservations.ErrNotCalled, and Run calls use with no tokens. In all other cases it does not call use, and the charges
// stand. Use may be nil.
//
// The error is that of Config.Check if the request can't be sent. Any other error is an *Error. An error matches
// tasks.ErrPermanent if a retry cannot fix it. If the service refused the call (Error.Refused), a
// *reservations.RetryAfterError wraps the error.
func (c *Client) Run(ctx context.Context, r Request, use func(reservations.Tokens)) (Answer, error) {
	answer, err := c.send(ctx, r)
	if use != nil && errors.Is(err, reservations.ErrNotCalled) && len(r.Taken) > 0 {
		use(reservations.Unused(r.Taken...))
	}
	return answer, err
}

// send makes the request.
func (c *Client) send(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout(c.config.Timeout))
	defer cancel()
	ctx, mark := httpcall.Watch(ctx, c.config.HTTPClient)
	request, to, secret, err := c.request(ctx, r)
	if err != nil {
		return Answer{}, httpcall.NotCalled(tasks.Permanent(err))
	}
	res, err := c.config.HTTPClient.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the URL, which may be confidential
		}
		return Answer{}, mark(&Error{Err: c.secrets.Error(err, messageLength)})
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
	kind, wait := httpcall.Classify(res.StatusCode, res.Header, time.Now())
	failed := &Error{
		Answer: answer, RetryAfter: wait, Err: err, kind: kind, secret: secret,
		message: redact.Cut(string(answer.Body[:min(len(answer.Body), messageLength+1)]), messageLength),
	}
	err = failed.marked()
	if refusal, refused := errors.AsType[*reservations.RetryAfterError](err); refused {
		refusal.Elsewhere = c.config.elsewhere(r, to)
	}
	return Answer{}, err
}

// answer returns the answer with all secrets replaced.
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

// request returns the HTTP request, where it goes, and whether it contains a secret. The error is as for Config.Check.
func (c *Client) request(ctx context.Context, r Request) (*http.Request, origin, bool, error) {
	target, to, err := c.config.target(r)
	if err != nil {
		return nil, to, false, err
	}
	header, secret, err := c.config.header(r, to)
	if err != nil {
		return nil, to, false, err
	}
	body, kind := r.content()
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, to, false, unsendable("url", "can't be sent")
	}
	if kind != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", kind)
	}
	request.Header = header
	return request, to, secret, nil
}
