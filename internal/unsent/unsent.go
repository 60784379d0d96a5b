// Package unsent says whether an HTTP request that failed was never sent, so that no provider can have counted it.
package unsent

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/headway-go/headway/reservations"
)

// Watch returns the context for one request, and a func for its error: the error matches reservations.ErrNotCalled if
// the request never had a connection. A transport that does not trace counts as connected, unless the error says
// otherwise.
func Watch(ctx context.Context) (watched context.Context, mark func(error) error) {
	var asked, connected atomic.Bool
	over := ctx.Err() != nil
	watched = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	return watched, func(err error) error {
		op, ok := errors.AsType[*net.OpError](err)
		if over || asked.Load() && !connected.Load() || ok && op.Op == "dial" {
			return reservations.NotCalled(err)
		}
		return err
	}
}
