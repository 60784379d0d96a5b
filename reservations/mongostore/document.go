package mongostore

import (
	"fmt"
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
	fieldAnswers = "answers"
	// keepFull is how long a full bucket is kept.
	keepFull = time.Minute
)

// document is what an answer holds beside the bucket. An update leaves other fields as they are, so that a later
// version may add some.
type document struct {
	Tag     int64            `bson:"tag"`     // random, another one after each swap: a swap looks for it
	Clock   time.Time        `bson:"clock"`   // the server's clock, in answers
	Inbox   []entry          `bson:"inbox"`   // see inbox.go
	Answers map[string]reply `bson:"answers"` // by the ID of the entry
	// expires is the date from which the TTL index deletes the document.
}

// encode returns the fields that a swap writes.
func encode(b bucket.Bucket, tag int64) bson.D {
	fields := bson.D{to(fieldTag, tag), to(fieldExpires, b.KeepUntil().Add(keepFull))}
	elements, _ := stored.Encode(b).Elements()
	for _, e := range elements {
		fields = append(fields, to(e.Key(), e.Value()))
	}
	return fields
}

// decode reads a whole document. The error matches stored.ErrMalformed.
func decode(raw bson.Raw) (bucket.Bucket, document, error) {
	var d document
	if err := bson.Unmarshal(raw, &d); err != nil {
		return bucket.Bucket{}, d, fmt.Errorf("%w: %w", stored.ErrMalformed, err)
	}
	if d.Tag == 0 {
		return bucket.Bucket{}, d, fmt.Errorf("%w: the tag is missing", stored.ErrMalformed)
	}
	b, err := stored.Decode(raw)
	return b, d, err
}

func to(field string, value any) bson.E { return bson.E{Key: field, Value: value} }
