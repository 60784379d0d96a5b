package httpcall

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headway-go/headway/reservations"
)

// Watch returns the context for one request of a client, and a func for its error: the error matches
// reservations.ErrNotCalled if the request never had a connection. That includes a request that net/http refuses before
// it asks for a connection, such as one with a control character in a header. A transport of another type than
// *http.Transport counts as connected, unless its error or its trace says otherwise.
func Watch(ctx context.Context, client *http.Client) (watched context.Context, mark func(error) error) {
	var asked, connected atomic.Bool
	over, traces := ctx.Err() != nil, standard(cmp.Or(client.Transport, http.DefaultTransport))
	watched = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	return watched, func(err error) error {
		op, ok := errors.AsType[*net.OpError](err)
		if over || (asked.Load() || traces) && !connected.Load() || ok && op.Op == "dial" {
			return NotCalled(err)
		}
		return err
	}
}

// standard says whether a transport is known to trace its connections.
func standard(transport http.RoundTripper) bool {
	_, ok := transport.(*http.Transport)
	return ok
}

// OfTransport says whether a header is one that the transport sets itself. A request that sets it is not sent over
// HTTP/2, or its answer stays packed (Accept-Encoding), so that nothing finds a secret in it.
func OfTransport(name string) bool {
	return slices.Contains([]string{
		"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}, http.CanonicalHeaderKey(name))
}

// Sendable returns why the value of a header can't be sent, without the value; empty if it can be. Net/http refuses a
// header with a control character other than a tab before it connects.
func Sendable(value string) (problem string) {
	unfit := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	switch {
	case !strings.ContainsFunc(value, unfit):
		return ""
	case !strings.ContainsFunc(strings.TrimRight(value, "\r\n"), unfit):
		return "ends with a line end, which no header can have: take it off"
	}
	return "has a control character, which no header can have"
}

// NotCalled returns err so that it matches reservations.ErrNotCalled as well. Its text stays: people read it in asynq's
// archive.
func NotCalled(err error) error { return notCalledError{err} }

type notCalledError struct{ error }

func (e notCalledError) Unwrap() []error { return []error{e.error, reservations.ErrNotCalled} }
