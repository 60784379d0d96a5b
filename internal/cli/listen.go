package cli

import (
	"context"
	"net"
)

// OnLoopback says whether an address is one of loopback.
func OnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen listens on the address of --listen. A fault of it is a *UsageError.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, Usage("--listen: %w; name another address", err)
	}
	return on, nil
}
