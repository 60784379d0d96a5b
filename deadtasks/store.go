package deadtasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/mongoerr"
)

// RetentionDefault is how long the record of a task that is not dead is stored: 30 days.
const RetentionDefault = 30 * 24 * time.Hour

// Options are the options of a Store. The zero value is right for production.
type Options struct {
	// Prefix is the beginning of the collection's name, PREFIXdead. Defaults to "headway_".
	Prefix string
	// Retention is how long a record is stored of a task that is failing, requeued or recovered. Records of dead
	// tasks stay. Defaults to [RetentionDefault].
	Retention time.Duration
}

// Store stores the records. It is safe for concurrent use, by any number of processes.
type Store struct {
	records   *mongo.Collection
	retention time.Duration
}

var _ deadletter.Source = (*Store)(nil)

// New returns a Store with its documents in db. It sends nothing; see EnsureIndexes. The caller disconnects the
// client.
func New(db *mongo.Database, o Options) *Store {
	o.Prefix = cmp.Or(o.Prefix, "headway_")
	if o.Retention <= 0 {
		o.Retention = RetentionDefault
	}
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return &Store{records: db.Collection(o.Prefix+"dead", settings), retention: o.Retention}
}

// EnsureIndexes creates the TTL index and the indexes for listing and finding tasks. Without them the Store is slow,
// and MongoDB never deletes a record. Any number of processes may call it, repeatedly.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	models := []mongo.IndexModel{
		{Keys: bson.M{fieldExpires: 1}, Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0)},
		{
			Keys:    bson.D{{Key: fieldState, Value: 1}, {Key: fieldAt, Value: 1}},
			Options: options.Index().SetName("listed"),
		},
		{Keys: bson.M{fieldTask: 1}, Options: options.Index().SetName(fieldTask)},
	}
	if _, err := s.records.Indexes().CreateMany(ctx, models); err != nil {
		return unavailable("create the indexes of "+s.records.Name(), err)
	}
	return nil
}

func (s *Store) expiry() time.Time { return time.Now().Add(s.retention) }

var (
	// ErrUnavailable means that the database did not answer, or refused the command. A write may have been applied;
	// repeat it.
	ErrUnavailable = errors.New("deadtasks: the database is not available")
	// ErrNotFound means that a task has no record.
	ErrNotFound = errors.New("deadtasks: no record")
	// ErrMalformed means that a stored document was not written by this package.
	ErrMalformed = errors.New("deadtasks: malformed document")
	// ErrNoPayload means that a payload was too large for a document, and is no longer in asynq's archive.
	ErrNoPayload = errors.New("deadtasks: the payload is not stored")
)

// ErrTooLarge means that a record would be larger than the database accepts. It matches deadletter.ErrNotKept: a retry
// cannot succeed.
var ErrTooLarge = fmt.Errorf("deadtasks: too large for a record: %w", deadletter.ErrNotKept)

// unavailable wraps an error of the driver. The driver's errors name addresses, never credentials.
func unavailable(op string, err error) error {
	if mongoerr.TooLarge(err) {
		return fmt.Errorf("%w: %s: %w", ErrTooLarge, op, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, err)
}
