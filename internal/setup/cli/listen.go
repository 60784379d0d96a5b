package cli

import (
	"context"
	"net"
)

// Listen listens on the address of --listen. A fault of it is a *UsageError.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, Usage("--listen: %w; name another address", err)
	}
	return on, nil
}
