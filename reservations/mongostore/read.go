package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/reservations"
)

// state is a bucket as the server holds it.
type state struct {
	bucket reservations.Bucket // zero where there is none
	tag    int64               // of the last write; zero where there is no document
	clock  time.Time           // the server's clock
	heard  time.Time           // the moment on this machine's clock at which clock arrived
}

// projection returns what a find needs of a document, and the server's clock.
func projection() bson.D {
	return bson.D{
		to("_id", 0), to(fieldTag, 1), to("gen", 1), to("v", 1), to("at", 1), to("blocked", 1), to("meters", 1), to("ids", 1),
		to("forgot", 1), to(fieldClock, "$$NOW"),
	}
}

// read returns the bucket and the server's clock: one find, and one aggregation more where there is no document. An error of it
// changed nothing.
func (s *Store) read(ctx context.Context, name string) (read state, err error) {
	var raw bson.Raw
	_, err = s.send(ctx, name, func(ctx context.Context) (err error) {
		raw, err = s.buckets.FindOne(ctx, bson.D{to("_id", name)}, options.FindOne().SetProjection(projection())).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			raw, read.clock, err = nil, time.Time{}, nil
			if s.now == nil {
				read.clock, err = s.serverClock(ctx, name)
			}
		}
		return err
	})
	if err != nil {
		return state{}, unchanged(err)
	}
	read.heard = time.Now()
	if raw != nil {
		if ms, ok := raw.Lookup(fieldClock).DateTimeOK(); ok {
			read.clock = time.UnixMilli(ms).UTC()
		}
		if read.bucket, read.tag, err = decode(raw); err != nil {
			return state{}, &reservations.UnavailableError{
				Bucket: name, Applied: reservations.AppliedNo, BucketOnly: true, Err: err,
			}
		}
	}
	if s.now != nil {
		read.clock = s.now()
	}
	return read, nil
}

// serverClock asks for the clock alone. A $facet answers with one document also where nothing matches.
func (s *Store) serverClock(ctx context.Context, name string) (time.Time, error) {
	cursor, err := s.buckets.Aggregate(ctx, mongo.Pipeline{
		bson.D{to("$match", bson.D{to("_id", name)})},
		bson.D{to("$facet", bson.D{to("none", bson.A{bson.D{to("$limit", 1)}})})},
		bson.D{to("$project", bson.D{to(fieldClock, "$$NOW")})},
	})
	if err != nil {
		return time.Time{}, err
	}
	var answers []struct {
		Clock time.Time `bson:"clock"`
	}
	if err = cursor.All(ctx, &answers); err != nil {
		return time.Time{}, err
	}
	if len(answers) != 1 {
		return time.Time{}, fmt.Errorf("the server does not say its clock: call EnsureIndexes, which creates the database")
	}
	return answers[0].Clock.UTC(), nil
}
