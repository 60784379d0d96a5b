package redisstore

import (
	"context"

	"github.com/headway-go/headway/reservations"
)

var _ reservations.Identified = (*Store)(nil)

// Identity implements reservations.Identified. All stores in Redis have one identity, since the Redis in which
// processes compare identities is the Redis that has the buckets. Its own ID would be lost with the buckets.
func (s *Store) Identity(ctx context.Context) (reservations.Identity, error) {
	if err := s.open(ctx); err != nil {
		return reservations.Identity{}, err
	}
	return reservations.Identity{ID: "redis", Place: "Redis"}, nil
}
