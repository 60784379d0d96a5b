package mongostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/documents/mongoerr"
	"github.com/headway-go/headway/reservations/internal/stored"
)

const (
	fieldExpires = "expires"
	fieldTag     = "tag"
	fieldClock   = "clock"
	fieldInbox   = "inbox"
	fieldAnswers = "replies"
	// keepFull is how long a full bucket is kept.
	keepFull = time.Minute
)

// document is a bucket as the server holds it. An update leaves other fields as they are, so that a later version may
// add some. ID is the bucket's name, and set in a new document alone.
type document struct {
	ID      string                     `bson:"_id,omitempty"`
	Bucket  bucket.Bucket              `bson:",inline"`
	Tag     int64                      `bson:"tag"`               // Random, another one after each swap.
	Expires bson.DateTime              `bson:"expires,omitempty"` // For the TTL index.
	Clock   time.Time                  `bson:"clock,omitempty"`   // The server's clock, in answers.
	Inbox   []entry                    `bson:"inbox,omitempty"`   // See inbox.go.
	Answers map[string][]bucket.Answer `bson:"replies,omitempty"` // By the ID of the entry, with this Bucket.
}

// newDocument is what a swap writes: a document without a clock, an inbox and answers.
func newDocument(b bucket.Bucket) document {
	return document{Bucket: b, Tag: newTag(), Expires: bson.NewDateTimeFromTime(b.KeepUntil().Add(keepFull))}
}

// decode reads a whole document. The error matches stored.ErrMalformed.
func decode(raw bson.Raw) (d document, err error) {
	if err = stored.Decode(raw, &d); err != nil {
		return d, err
	}
	if d.Tag == 0 {
		return d, fmt.Errorf("%w: the tag is missing", stored.ErrMalformed)
	}
	err = stored.Check(&d.Bucket)
	for _, answers := range d.Answers {
		for i := range answers {
			answers[i].Bucket = d.Bucket
		}
	}
	return d, err
}

// newTag is positive.
func newTag() int64 { return rand.Int64() | 1 } //nolint:gosec // distinguishes writes, needs no secrecy

func to(field string, value any) bson.E { return bson.E{Key: field, Value: value} }

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
	err := s.send(ctx, name, func(ctx context.Context) error {
		return mongoerr.Repeatedly(ctx, func() (err error) {
			fields := options.FindOne().SetProjection(returned("$$NOW", id))
			raw, err = s.buckets.FindOne(ctx, bson.D{to("_id", name)}, fields).Raw()
			if errors.Is(err, mongo.ErrNoDocuments) {
				raw = nil
				clock, err = s.serverClock(ctx, name)
			}
			return err
		})
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
	d.Clock = s.clock(d.Clock)
	return state{document: d, heard: time.Now()}, nil
}

// clock is a moment of the server's clock, which tests replace.
func (s *Store) clock(moment time.Time) time.Time {
	if s.now != nil {
		return s.now()
	}
	return moment
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
