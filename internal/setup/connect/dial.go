package connect

import (
	"context"
	"net"
)

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

type dialKey struct{}

// WithDial returns a context with which Redis opens all its connections by dial. Tests in virtual time have no sockets.
func WithDial(ctx context.Context, dial Dial) context.Context {
	return context.WithValue(ctx, dialKey{}, dial)
}

// dialOf returns the Dial of WithDial, or nil: clients dial the network then.
func dialOf(ctx context.Context) Dial {
	dial, _ := ctx.Value(dialKey{}).(Dial)
	return dial
}
