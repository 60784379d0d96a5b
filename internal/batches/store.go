package batches

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/internal/packed"
)

const (
	// PrefixDefault is the beginning of the collections' names.
	PrefixDefault = "headway_"

	// RetentionDefault is how long a result is stored: 30 days.
	RetentionDefault = 30 * 24 * time.Hour
)

const (
	fieldCreated = "created"
	fieldExpires = "expires"
)

// Options are the options of a Store. The zero value is right for production.
type Options struct {
	// Prefix is the beginning of the collections' names, PREFIXbatches and PREFIXresults. Defaults to
	// [PrefixDefault].
	Prefix string

	// Retention is how long a result is stored if Batch.Retention is zero. Defaults to [RetentionDefault].
	Retention time.Duration

	// Now is the clock for the retention. Nil means time.Now.
	Now func() time.Time
}

// Store stores batches and the results of their requests. It is safe for concurrent use, by any number of processes.
type Store struct {
	batches   *mongo.Collection
	results   *mongo.Collection
	retention time.Duration
	now       func() time.Time

	mu    sync.Mutex // guards lives; never held during a query
	lives map[string]life
}

// New returns a Store with its documents in db. It sends nothing; see EnsureIndexes. The caller disconnects the
// client.
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

const (
	outlive   = 48 * time.Hour // a batch's record outlives its last result by 24 to 48 h
	maxCached = 1000
)

// life is the retention of a batch, as this process last read it.
type life struct {
	retention time.Duration
	expires   time.Time // of the batch's record; zero if there is none
}

// expiry returns when a document that is written now expires. The record of the batch must outlive it: expiry extends
// the record first, so that no crash leaves results without their batch. Each process reads the record once per
// batch, and writes it once a day.
func (s *Store) expiry(ctx context.Context, batch string) (time.Time, error) {
	s.mu.Lock()
	l, known := s.lives[batch]
	s.mu.Unlock()
	if !known {
		var err error
		if l, err = s.readLife(ctx, batch); err != nil {
			return time.Time{}, err
		}
	}
	expires := s.now().Add(l.retention)
	if !l.expires.IsZero() && expires.Add(outlive/2).After(l.expires) {
		l.expires = expires.Add(outlive)
		update := bson.M{"$max": bson.M{fieldExpires: l.expires}}
		if _, err := s.batches.UpdateOne(ctx, bson.M{"_id": batch}, update); err != nil {
			return time.Time{}, unavailable("extend", batch, err)
		}
		known = false
	}
	if !known {
		s.mu.Lock()
		if len(s.lives) >= maxCached {
			clear(s.lives)
		}
		s.lives[batch] = l
		s.mu.Unlock()
	}
	return expires, nil
}

func (s *Store) readLife(ctx context.Context, batch string) (life, error) {
	var d batchDocument
	o := options.FindOne().SetProjection(bson.M{"retention": 1, fieldExpires: 1})
	err := s.batches.FindOne(ctx, bson.M{"_id": batch}, o).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return life{retention: s.retention}, nil
	}
	if err != nil {
		return life{}, unavailable("read", batch, err)
	}
	l := life{retention: packed.Milliseconds(d.Retention), expires: d.Expires}
	if l.retention <= 0 {
		l.retention = s.retention
	}
	return l, nil
}
