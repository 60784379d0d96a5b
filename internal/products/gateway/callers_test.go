package gateway_test

import (
	"context"

	"github.com/headway-go/headway/internal/documents/keys"
)

// callers are keys by their secrets.
type callers map[string]keys.Key

// Find implements gateway.Keys.
func (c callers) Find(_ context.Context, secret string) (keys.Key, bool) {
	key, ok := c[secret]
	return key, ok
}

// keyOf is a key for interactive calls of a tenant.
func keyOf(tenant string) keys.Key {
	return keys.Key{ID: tenant, Tenant: tenant, Priority: "interactive"}
}
