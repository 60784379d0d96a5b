package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// state is a document as this process has seen it last; it is zero where there is none.
type state struct {
	document

	heard time.Time // when Clock arrived, on this machine's clock
	blind bool      // from this process's swap, which returns no inbox
}

// returned is what an answer holds of a document, beside the server's clock: of the answers to entries only that of id,
// or all where it is zero.
func returned(clock any, id int64) bson.D {
	answers := fieldAnswers
	if id != 0 {
		answers = answerTo(id)
	}
	fields := bson.D{to("_id", 0), to(fieldTag, 1), to(fieldInbox, 1), to(answers, 1), to(fieldClock, clock)}
	for _, name := range stored.Fields() {
		fields = append(fields, to(name, 1))
	}
	return fields
}

// read returns the bucket and the server's clock: one find, and one aggregation more where there is no document. See
// returned for id.
func (s *Store) read(ctx context.Context, name string, id int64) (state, error) {
	var raw bson.Raw
	var clock time.Time
	_, err := s.send(ctx, name, func(ctx context.Context) (err error) {
		fields := options.FindOne().SetProjection(returned("$$NOW", id))
		raw, err = s.buckets.FindOne(ctx, bson.D{to("_id", name)}, fields).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			raw = nil
			clock, err = s.serverClock(ctx, name)
		}
		return err
	})
	if err != nil {
		if u := (*bucket.UnavailableError)(nil); errors.As(err, &u) {
			u.Applied = bucket.AppliedNo
		}
		return state{}, err
	}
	if raw == nil {
		return state{document: document{Clock: clock}, heard: time.Now()}, nil
	}
	return s.state(name, raw)
}

// state decodes an answer.
func (s *Store) state(name string, raw bson.Raw) (state, error) {
	d, err := decode(raw)
	if err != nil {
		return state{}, &bucket.UnavailableError{
			Bucket: name, Applied: bucket.AppliedNo, BucketOnly: true, Err: err,
		}
	}
	if s.now != nil {
		d.Clock = s.now()
	}
	return state{document: d, heard: time.Now()}, nil
}

// serverClock asks for the clock alone. A $facet answers with one document also where nothing matches.
func (s *Store) serverClock(ctx context.Context, name string) (time.Time, error) {
	if s.now != nil {
		return s.now(), nil
	}
	cursor, err := s.buckets.Aggregate(ctx, mongo.Pipeline{
		bson.D{to("$match", bson.D{to("_id", name)})},
		bson.D{to("$facet", bson.D{to("none", bson.A{bson.D{to("$limit", 1)}})})},
		bson.D{to("$project", bson.D{to(fieldClock, "$$NOW")})},
	})
	if err != nil {
		return time.Time{}, err
	}
	var answers []document
	if err = cursor.All(ctx, &answers); err != nil {
		return time.Time{}, err
	}
	if len(answers) != 1 {
		return time.Time{}, errors.New("the server does not say its clock: EnsureIndexes creates the database")
	}
	return answers[0].Clock.UTC(), nil
}
