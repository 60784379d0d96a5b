package mongostore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/reservations"
)

// EnsureIndexes creates what the collection needs: a TTL index that deletes buckets once they have been full for a
// minute. Without it everything works and idle buckets stay. Calling it again, from any number of processes, does
// nothing. The error matches reservations.ErrUnavailable.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	ttl := mongo.IndexModel{
		Keys:    bson.D{to(fieldExpires, 1)},
		Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0),
	}
	if _, err := s.buckets.Indexes().CreateOne(ctx, ttl); err != nil {
		return fmt.Errorf("%w: create the TTL index of %s: %w", reservations.ErrUnavailable, s.buckets.Name(), err)
	}
	return nil
}
