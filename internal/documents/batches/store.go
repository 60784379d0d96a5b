package batches

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/documents"
)

// Retention is how long a result is stored: 30 days.
const Retention = 30 * 24 * time.Hour

// Options are the options of a Store. The zero value is right for production.
type Options struct {
	// Now is the clock for the retention. Nil means time.Now.
	Now func() time.Time
}

// Store stores batches and the results of their requests. It is safe for concurrent use, by any number of processes.
type Store struct {
	batches documents.Collection
	results documents.Collection
	now     func() time.Time
	lives   bounded.Map[string, time.Time] // until when the record of a batch is stored at least
}

// New returns a Store with its documents in a store. It sends nothing; see EnsureIndexes.
func New(in documents.Store, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{batches: in.Collection("batches"), results: in.Collection("results"), now: o.Now}
}

// EnsureIndexes makes sure of the indexes. Any number of processes may call it, repeatedly.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	return errors.Join(s.batches.EnsureIndexes(ctx), s.results.EnsureIndexes(ctx))
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
	extend := documents.Change{Key: batch, Apply: func(d *documents.Document) (bool, error) {
		longer := d.Version != "" && d.Expires.Before(outlives)
		d.Expires = outlives
		return longer, nil
	}}
	if err := documents.UpdateOne(ctx, s.batches, extend); err != nil {
		return time.Time{}, of("extend", batch, err)
	}
	s.lives.Change(batch, func(known *time.Time) { *known = outlives })
	return expires, nil
}
