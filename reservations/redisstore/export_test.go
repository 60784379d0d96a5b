package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// KeyEpoch is the key of the epoch.
const KeyEpoch = keyEpoch

// Unchecked is Open without its questions to the server.
func Unchecked(client redis.UniversalClient) *Store {
	s := New(client)
	s.opened.Store(true)
	return s
}

// WithClock replaces Redis's clock; nil leaves it.
func (s *Store) WithClock(now func() time.Time) *Store {
	s.now = now
	return s
}

// WithPatience sets how long a call competes.
func (s *Store) WithPatience(d time.Duration) *Store {
	s.patience = d
	return s
}

// NeverLost makes the server one that has never lost anything: a missing bucket is full.
func NeverLost(ctx context.Context, client redis.UniversalClient) error {
	return client.SetRange(ctx, keyEpoch, 0, "0000000000000000").Err()
}
