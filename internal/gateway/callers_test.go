package gateway_test

import "github.com/headway-go/headway/internal/keys"

// callers are keys by their secrets.
type callers map[string]keys.Key

// Find implements gateway.Keys.
func (c callers) Find(secret string) (keys.Key, bool) {
	key, ok := c[secret]
	return key, ok
}
