package mongostore

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
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
