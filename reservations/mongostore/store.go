package mongostore

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/documents/mongoerr"
	"github.com/headway-go/headway/reservations"
)

const (
	// DefaultCollection is where buckets are kept.
	DefaultCollection = "headway_buckets"
	// DefaultOverrides is where overrides are kept.
	DefaultOverrides = "headway_overrides"
)

// Options of a Store. The zero value is right for production.
type Options struct {
	// Collection holds the buckets. Defaults to DefaultCollection. All users of a limit must name the same.
	Collection string
	// Overrides holds the rates that were set while the fleet runs, one document for each meter of a limit or of one of
	// its keys. Defaults to DefaultOverrides. All processes of a fleet must name the same.
	Overrides string
}

// Store is a reservations.Store in MongoDB, which stores overrides as well. Safe for concurrent use, by any number of
// processes.
type Store struct {
	buckets   *mongo.Collection
	overrides *mongo.Collection
	now       func() time.Time // replaces the server's clock in tests
	memory    memory
	patience  time.Duration // how long a call competes
	monitored atomic.Bool   // the monitor of Connect saw a call
	answered  atomic.Int64  // when the server last answered a call, in nanoseconds since 1970
}

var _ reservations.Store = (*Store)(nil)

// New returns a Store that keeps its buckets in db. It sends nothing; see EnsureIndexes. The caller disconnects the
// client of db.
func New(db *mongo.Database, o Options) *Store {
	s := &Store{
		buckets:   db.Collection(cmp.Or(o.Collection, DefaultCollection), settings()),
		overrides: db.Collection(cmp.Or(o.Overrides, DefaultOverrides), settings()),
		patience:  patience,
	}
	s.memory.Most = memoryMost
	return s
}

// settings returns the settings of all collections: writes outlive a failover, and reads see them.
func settings() options.Lister[options.CollectionOptions] {
	return options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
}

// Reset implements reservations.Store: it deletes the document.
func (s *Store) Reset(ctx context.Context, limit, key string) error {
	name := bucket.Name(limit, key)
	defer s.memory.Delete(name)
	return s.send(ctx, name, func(ctx context.Context) error {
		_, err := s.buckets.DeleteOne(ctx, bson.D{to("_id", name)})
		return err
	})
}

// Update implements reservations.Store.
func (s *Store) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.apply, s.load)
}

// load reads the document and the server's clock.
func (s *Store) load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	read, err := s.read(ctx, bucket.Name(limit, key), 0)
	return read.Bucket, read.Clock, err
}

// EnsureIndexes creates what the collection needs: a TTL index that deletes buckets once they have been full for a
// minute. Without it everything works and idle buckets stay. Calling it again, from any number of processes, does
// nothing. The error matches reservations.ErrUnavailable.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	ttl := mongo.IndexModel{
		Keys:    bson.D{to(fieldExpires, 1)},
		Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0),
	}
	err := mongoerr.Repeatedly(ctx, func() error {
		_, err := s.buckets.Indexes().CreateOne(ctx, ttl)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: create the TTL index of %s: %w", reservations.ErrUnavailable, s.buckets.Name(), err)
	}
	return nil
}
