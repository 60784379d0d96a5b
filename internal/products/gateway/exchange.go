package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/genai"
	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
)

const (
	// errorBytes is how much of an answer that is an error is read and passed on.
	errorBytes = 256 << 10
	// settlePatience bounds how long a settlement is tried while the store is away.
	settlePatience = 30 * time.Second
)

var (
	// errAgain ends an exchange that the provider refused for a while.
	errAgain = errors.New("the provider refused the call for a while")
	// errTimeout ends an exchange that takes too long.
	errTimeout = errors.New("the provider took too long")
)

// exchange is one call of a provider.
type exchange struct {
	gateway *Gateway
	hold    *hold
	call    *call
	order   order
	grant   *reservations.Grant
	retries bool // a call that is refused for a while waits again
	attempt int  // from 1

	ctx   context.Context //nolint:containedctx // of this one call
	mark  func(error) error
	sent  time.Time
	meter *meter // of the answer; nil before one came
	// notCalled says that nothing was sent, rejected that the provider did not work on the request. Again says that the
	// call waits again. Block is how long its limit is blocked.
	notCalled, rejected, again bool
	block                      time.Duration
	header                     http.Header // of the answer, as the provider sent it
	status                     int         // as above
	err                        error       // why there is no answer, if the provider is at fault
	endSpan                    func(genai.Result)
}

type exchangeKey struct{}

// exchangeOf is the exchange of a request to a provider.
func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// run makes the call, passes on its answer, and settles. Again says that the call has to wait once more.
func (x *exchange) run(w http.ResponseWriter, r *http.Request) (again bool) {
	kept, stop := x.grant.Keep(r.Context())
	defer stop()
	kept, cancel := context.WithTimeoutCause(kept, x.gateway.config.Timeout, errTimeout)
	defer cancel()
	x.ctx, x.mark = httpcall.Watch(kept, x.gateway.client)
	x.ctx, x.endSpan = genai.Start(x.ctx, x.gateway.tracer, x.providerName(), x.call.endpoint, x.call.model)
	x.sent = time.Now()
	defer x.settle(context.WithoutCancel(r.Context()))
	out := r.WithContext(context.WithValue(x.ctx, exchangeKey{}, x)) //nolint:contextcheck // leases outlive the caller
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(x.call.body)), int64(len(x.call.body))
	out.TransferEncoding = nil
	x.gateway.proxy.ServeHTTP(&answerWriter{hold: x.hold, ResponseWriter: w}, out)
	return x.again
}

// rewrite makes the request to the provider.
func rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In)
	provider, c := x.order.provider, x.call
	u := *provider.base
	if azure := isAzure(u.Hostname()); azure && c.deployment != "" {
		u.Path = "/openai/deployments/" + c.deployment + strings.TrimPrefix(c.endpoint, "/v1")
	} else {
		u.Path += strings.TrimPrefix(c.endpoint, "/v1")
		c.query.Del("api-version")
	}
	u.RawQuery = c.query.Encode()
	p.Out.URL, p.Out.Host = &u, u.Host
	cleanRequest(p.Out.Header)
	sign(p.Out.Header, c.family, provider)
}

func isAzure(host string) bool {
	return strings.HasSuffix(host, ".openai.azure.com") || strings.HasSuffix(host, ".cognitiveservices.azure.com") ||
		strings.HasSuffix(host, ".services.ai.azure.com")
}

// cleanRequest takes out what is for the gateway alone. The answer comes as it is, so that its usage can be read.
func cleanRequest(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Headway-") || strings.HasPrefix(name, "Proxy-") {
			h.Del(name)
		}
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Upgrade", "Expect"} {
		h.Del(name)
	}
	h.Set("Accept-Encoding", "identity")
}

// sign adds the provider's key.
func sign(h http.Header, of family, p Provider) {
	switch {
	case p.APIKey == "":
	case of == familyAnthropic:
		h.Set("X-Api-Key", p.APIKey)
	case isAzure(p.base.Hostname()):
		h.Set("Api-Key", p.APIKey)
	default:
		h.Set("Authorization", "Bearer "+p.APIKey)
	}
}

// answered looks at the answer of the provider before it is passed on.
func answered(res *http.Response) error {
	x := exchangeOf(res.Request)
	x.header, x.status = res.Header.Clone(), res.StatusCode
	var failure []byte
	if res.StatusCode >= http.StatusMultipleChoices {
		failure, _ = io.ReadAll(io.LimitReader(res.Body, errorBytes)) // what came is passed on
		_ = res.Body.Close()
		failure = x.gateway.secrets.Bytes(failure)
		if err := x.judge(res, failure); err != nil {
			return err
		}
	}
	opened := x.hold.end()
	if failure != nil && opened {
		return openError{failure}
	}
	cleanAnswer(res.Header)
	showLimits(res.Header, x.call.family, x.grant.Outcomes())
	_, _, at := x.hold.watch.waited()
	if at.number > 0 || !at.start.IsZero() {
		res.Header.Set("Headway-Waited", fmt.Sprintf("%.1f", x.sent.Sub(x.hold.began).Seconds()))
	}
	if failure != nil {
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(failure)), int64(len(failure))
		res.Header.Del("Content-Length")
		return nil
	}
	x.meter = &meter{}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		res.Body = newEvents(res.Body, x.meter, x.call)
		res.ContentLength = -1
		res.Header.Del("Content-Length")
	case x.call.holds() || kind == "application/json":
		res.Body = &jsonBody{body: res.Body, meter: x.meter}
	}
	return nil
}

// openError is an answer that is an error after the status of the response went out.
type openError struct{ body []byte }

func (openError) Error() string { return "the provider answered with an error" }

// judge says what an answer that is no good one means. The error ends the exchange.
func (x *exchange) judge(res *http.Response, body []byte) error {
	v := openai.Judge(openai.Reply{
		Endpoint: x.call.endpoint, Status: res.StatusCode, Header: res.Header, Body: body,
	}, time.Now())
	status := res.StatusCode
	x.rejected = status < http.StatusInternalServerError && status != http.StatusRequestTimeout || v.Kind.Refuses()
	switch {
	case status < http.StatusBadRequest:
		return fmt.Errorf("the provider redirects with status %d", status)
	case status == http.StatusUnauthorized:
		x.gateway.config.Logger.WarnContext(x.ctx, "the provider refuses the key of this gateway",
			slog.String("provider", x.order.provider.Name))
		return errKeyRefused
	}
	waits := v.Kind == httpcall.RateLimit || v.Kind == httpcall.Overload && v.Wait > 0
	if !waits {
		if v.Kind == httpcall.Quota {
			res.Header.Set("X-Should-Retry", "false")
		}
		return nil
	}
	x.block = v.Wait
	if !x.retries || time.Now().Add(v.Wait).After(x.hold.watch.latest) {
		return nil
	}
	x.again = true
	return errAgain
}

// errKeyRefused is a 401 of the provider. It is not passed on: the key of the caller is good.
var errKeyRefused = errors.New("the provider refuses the key of this gateway")

// failed answers a call that has no answer of the provider to pass on.
func failed(_ http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	if errors.Is(err, errAgain) {
		return
	}
	if failure, ok := errors.AsType[openError](err); ok {
		x.hold.failOpen(failure.body)
		return
	}
	cause := context.Cause(r.Context())
	err = x.mark(err)
	x.notCalled = x.header == nil && errors.Is(err, reservations.ErrNotCalled)
	f := fault{status: http.StatusBadGateway, code: "provider_failed", message: "The provider gave no answer."}
	switch {
	case x.notCalled:
		f.code, f.message = "provider_unreachable", "The provider can't be reached."
	case errors.Is(cause, errTimeout):
		f.status, f.code, f.message = http.StatusGatewayTimeout, "provider_timeout",
			fmt.Sprintf("The provider did not answer within %v.", x.gateway.config.Timeout)
	case errors.Is(err, errKeyRefused):
		f.code, f.noRetry, f.message = "provider_key_refused", true, "The provider refuses the key of this gateway."
	case cause != nil:
		return // the caller has gone
	}
	const length = 300
	x.err = x.gateway.secrets.Error(err, length)
	x.gateway.config.Logger.WarnContext(r.Context(), "a call has no answer",
		slog.String("provider", x.order.provider.Name), slog.String("endpoint", x.call.endpoint),
		slog.Any("error", x.err))
	x.hold.fail(f)
}

// answerWriter is how an answer goes to the caller.
type answerWriter struct {
	http.ResponseWriter

	hold    *hold
	scratch http.Header // of an answer whose response is open
	opened  bool
	wrote   bool
}

// Header implements http.ResponseWriter.
func (a *answerWriter) Header() http.Header {
	if a.scratch != nil {
		return a.scratch
	}
	<-a.hold.turn
	opened := a.hold.opened
	a.hold.turn <- struct{}{}
	if !opened {
		return a.ResponseWriter.Header()
	}
	a.scratch = http.Header{}
	return a.scratch
}

// WriteHeader implements http.ResponseWriter.
func (a *answerWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.opened = a.hold.end()
	}
	if !a.opened && a.scratch == nil && status >= http.StatusOK {
		a.hold.allow() // they may be flushed before the first Write
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (a *answerWriter) Write(text []byte) (int, error) {
	if !a.wrote {
		a.wrote = true
		a.hold.end()
	}
	a.hold.allow()
	return a.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }
