package batches

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/internal/bounded"
)

// Prefix is the beginning of the collections' names, headway_batches and headway_results.
const Prefix = "headway_"

// Retention is how long a result is stored: 30 days.
const Retention = 30 * 24 * time.Hour

const (
	fieldCreated = "created"
	fieldExpires = "expires"
)

// Options are the options of a Store. The zero value is right for production.
type Options struct {
	// Now is the clock for the retention. Nil means time.Now.
	Now func() time.Time
}

// Store stores batches and the results of their requests. It is safe for concurrent use, by any number of processes.
type Store struct {
	batches *mongo.Collection
	results *mongo.Collection
	now     func() time.Time
	lives   bounded.Map[string, time.Time] // until when the record of a batch is stored at least
}

// New returns a Store with its documents in db. It sends nothing; see EnsureIndexes. The caller disconnects the
// client.
func New(db *mongo.Database, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return &Store{
		batches: db.Collection(Prefix+"batches", settings), results: db.Collection(Prefix+"results", settings),
		now: o.Now,
	}
}

// EnsureIndexes creates the TTL indexes, and the index for [Store.List]. Without them MongoDB never deletes a
// document. Any number of processes may call it, repeatedly.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	ttl := mongo.IndexModel{
		Keys:    bson.M{fieldExpires: 1},
		Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0),
	}
	newest := mongo.IndexModel{Keys: bson.M{fieldCreated: -1}, Options: options.Index().SetName(fieldCreated)}
	for collection, models := range map[*mongo.Collection][]mongo.IndexModel{
		s.batches: {ttl, newest},
		s.results: {ttl},
	} {
		if _, err := collection.Indexes().CreateMany(ctx, models); err != nil {
			return fmt.Errorf("%w: create the indexes of %s: %w", ErrUnavailable, collection.Name(), err)
		}
	}
	return nil
}

// outlive is how long a batch's record outlives its last result: half of it at least.
const outlive = 48 * time.Hour

// expiry returns when a document that is written now expires. The record of the batch must outlive it: expiry extends
// the record first, so that no crash leaves results without their batch. Each process writes the record once a day.
func (s *Store) expiry(ctx context.Context, batch string) (time.Time, error) {
	expires := s.now().Add(Retention)
	if !expires.Add(outlive / 2).After(s.lives.Get(batch)) {
		return expires, nil
	}
	outlives := expires.Add(outlive)
	update := bson.M{"$max": bson.M{fieldExpires: outlives}}
	if _, err := s.batches.UpdateOne(ctx, bson.M{"_id": batch}, update); err != nil {
		return time.Time{}, unavailable("extend", batch, err)
	}
	s.lives.Change(batch, func(known *time.Time) { *known = outlives })
	return expires, nil
}
