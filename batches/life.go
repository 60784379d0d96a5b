package batches

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	outlive   = 48 * time.Hour // by which the record of a batch outlives its last result, at least half of it
	maxCached = 1000
)

// life is what this process knows of how long a batch is kept.
type life struct {
	retention time.Duration
	expires   time.Time // of the batch's record; zero where there is none
}

// expiry returns when a document of the batch that is written now expires. The record of the batch must outlive it: it is moved on
// first, so that no crash leaves results without their batch. In a process that costs a read once, and a write once a day.
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
		update := bson.D{{Key: "$max", Value: bson.D{{Key: fieldExpires, Value: l.expires}}}}
		if _, err := s.batches.UpdateOne(ctx, bson.D{{Key: "_id", Value: batch}}, update); err != nil {
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
	o := options.FindOne().SetProjection(bson.D{{Key: "retention", Value: 1}, {Key: fieldExpires, Value: 1}})
	err := s.batches.FindOne(ctx, bson.D{{Key: "_id", Value: batch}}, o).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return life{retention: s.retention}, nil
	}
	if err != nil {
		return life{}, unavailable("read", batch, err)
	}
	l := life{retention: time.Duration(d.Retention) * time.Millisecond, expires: d.Expires}
	if l.retention <= 0 {
		l.retention = s.retention
	}
	return l, nil
}
