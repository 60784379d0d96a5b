package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/reservations"
)

// A bucket that several processes use is another one at each call, so a swap of what this process knows is in vain. Where many requests share the call, it
// is looked at first, and swapped at once: a pipeline evaluates each request at the server, at many times what reservations.Step takes here. A
// process that writes in between makes the swap miss; after so many the pipeline decides, which never does.

const (
	// looksFrom is how many requests are worth a look: it takes a quarter of a pipeline with one, and the swap a half.
	looksFrom = 4
	// looksMost is how often a call looks.
	looksMost = 2
)

// decisive are the fields of a bucket by which requests are decided, and the server's clock.
func decisive() bson.D {
	fields := bson.D{to(fieldClock, "$$NOW")}
	for _, name := range []string{
		fieldAt, fieldLed, fieldShape, "shift", "speed", "carry", "blocked", "gen", "v", "meters", "gap", "was", "idle", "keep", "express", "owed", "xshift", "ids", "forgot",
	} {
		fields = append(fields, to(name, 1))
	}
	return fields
}

// looks says whether the call may look before it swaps.
func (s *Store) looks(requests []reservations.Request) bool {
	return s.swapping != swapNever && len(requests) >= looksFrom
}

// look reads the bucket and swaps it. Before is what was known. No outcomes: there is none, or others write all the time; nothing was changed.
func (s *Store) look(
	ctx context.Context, name string, before known, limit reservations.Limit, requests []reservations.Request,
) ([]reservations.Outcome, error) {
	for range looksMost {
		raw, err := s.find(ctx, name)
		if err != nil {
			return nil, err
		}
		bucket, err := decodeBucket(raw)
		if err != nil {
			return nil, nil //nolint:nilerr // there is none, or it is not one of ours: the pipeline knows what to do
		}
		now := moment(raw.Lookup(fieldClock))
		if s.local != nil {
			now = time.UnixMilli(s.local().UnixMilli())
		}
		if now.IsZero() {
			return nil, nil // a server that does not tell its clock here
		}
		outcomes, after, err := s.swap(ctx, name, known{bucket: bucket, led: raw.Lookup(fieldLed)}, now, limit, requests)
		if err != nil {
			return nil, err
		}
		if outcomes != nil {
			after.steady = bucket.Generation == before.bucket.Generation && bucket.Version == before.bucket.Version
			s.memory.folded(name, after)
			return outcomes, nil
		}
	}
	return nil, nil
}

// find reads what decides of the bucket, nothing where there is none.
func (s *Store) find(ctx context.Context, name string) (raw bson.Raw, err error) {
	err = s.attempt(ctx, name, func(ctx context.Context) (err error) {
		raw, err = s.buckets.FindOne(ctx, bson.D{to("_id", name)}, options.FindOne().SetProjection(decisive())).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	})
	if u, ok := errors.AsType[*reservations.UnavailableError](err); ok {
		u.Applied = reservations.AppliedNo // nothing was asked for yet
	}
	return raw, err
}
