package batches

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	// PrefixDefault begins the names of the collections.
	PrefixDefault = "headway_"

	// RetentionDefault is how long a result is kept: 30 days.
	RetentionDefault = 30 * 24 * time.Hour
)

const (
	fieldCreated = "created"
	fieldState   = "state"
	fieldExpires = "expires"

	fieldLines    = "lines"
	fieldRequests = "requests"
)

// Options of a Store. The zero value is right for production.
type Options struct {
	// Prefix begins the names of the collections: PREFIXbatches, PREFIXresults. Defaults to [PrefixDefault].
	Prefix string

	// Retention is how long a result is kept where its batch does not say. Defaults to [RetentionDefault].
	Retention time.Duration

	// Now is the clock that retention counts by. Nil means time.Now.
	Now func() time.Time
}

// Store keeps batches and the results of their requests. Safe for concurrent use, by any number of processes.
type Store struct {
	batches   *mongo.Collection
	results   *mongo.Collection
	retention time.Duration
	now       func() time.Time

	mu    sync.Mutex // guards lives; never held while the database is asked
	lives map[string]life
}

// New returns a Store that keeps its documents in db. It sends nothing; see EnsureIndexes. The client of db stays the caller's
// to disconnect.
func New(db *mongo.Database, o Options) *Store {
	if o.Prefix == "" {
		o.Prefix = PrefixDefault
	}
	if o.Retention <= 0 {
		o.Retention = RetentionDefault
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return &Store{
		batches: db.Collection(o.Prefix+"batches", settings), results: db.Collection(o.Prefix+"results", settings),
		retention: o.Retention, now: o.Now, lives: map[string]life{},
	}
}

// EnsureIndexes creates the TTL indexes, and the one that [Store.List] sorts by. Without them everything works, and nothing is
// ever deleted. Calling it again, from any number of processes, does nothing.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	ttl := mongo.IndexModel{
		Keys:    bson.D{{Key: fieldExpires, Value: 1}},
		Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0),
	}
	newest := mongo.IndexModel{Keys: bson.D{{Key: fieldCreated, Value: -1}}, Options: options.Index().SetName(fieldCreated)}
	for collection, models := range map[*mongo.Collection][]mongo.IndexModel{s.batches: {ttl, newest}, s.results: {ttl}} {
		if _, err := collection.Indexes().CreateMany(ctx, models); err != nil {
			return fmt.Errorf("%w: create the indexes of %s: %w", ErrUnavailable, collection.Name(), err)
		}
	}
	return nil
}
