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

	"github.com/headway-go/headway/internal/packed"
	"github.com/headway-go/headway/worker"
)

// RetentionDefault is how long a record is kept of a task that is not dead: 30 days.
const RetentionDefault = 30 * 24 * time.Hour

// Options of a Store. The zero value is right for production.
type Options struct {
	// Prefix begins the name of the collection PREFIXdead. Defaults to "headway_".
	Prefix string
	// Retention is how long a record is kept of a task that is failing, was requeued or recovered. Records of dead
	// tasks stay. Defaults to [RetentionDefault].
	Retention time.Duration
	// Now is the clock that retention counts by. Nil means time.Now.
	Now func() time.Time
}

// Store keeps the records. Safe for concurrent use, by any number of processes.
type Store struct {
	records   *mongo.Collection
	retention time.Duration
	now       func() time.Time
}

var _ worker.Graveyard = (*Store)(nil)

// New returns a Store that keeps its documents in db. It sends nothing; see EnsureIndexes. The caller disconnects the
// client.
func New(db *mongo.Database, o Options) *Store {
	o.Prefix = cmp.Or(o.Prefix, "headway_")
	if o.Retention <= 0 {
		o.Retention = RetentionDefault
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return &Store{records: db.Collection(o.Prefix+"dead", settings), retention: o.Retention, now: o.Now}
}

// EnsureIndexes creates the TTL index and the indexes that tasks are listed and found by. Without them everything
// works, slowly, and nothing is ever deleted. Calling it again, from any number of processes, does nothing.
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

func (s *Store) expiry() time.Time { return s.now().Add(s.retention) }

var (
	// ErrUnavailable is matched when the database did not answer, or turned the command away. A write may have been
	// applied; it may be repeated.
	ErrUnavailable = errors.New("deadtasks: the database is not available")
	// ErrNotFound is a task that has no record.
	ErrNotFound = errors.New("deadtasks: no record")
	// ErrMalformed is a stored document that is not one of this package's.
	ErrMalformed = errors.New("deadtasks: malformed document")
	// ErrNoPayload is a task whose payload was too large for a document, and is in asynq's archive no more.
	ErrNoPayload = errors.New("deadtasks: the payload is not kept")
)

// ErrTooLarge is matched when a record would be larger than the database takes. It matches worker.ErrNotKept: no
// repetition mends it.
var ErrTooLarge = fmt.Errorf("deadtasks: too large for a record: %w", worker.ErrNotKept)

// unavailable wraps what the driver said. Its errors name addresses, never credentials.
func unavailable(op string, err error) error {
	if packed.TooLarge(err) {
		return fmt.Errorf("%w: %s: %w", ErrTooLarge, op, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, err)
}

const codeWriteConflict = 112

// met says whether a write changed nothing because the document was there, or changed meanwhile.
func met(err error) bool {
	var se mongo.ServerError
	return mongo.IsDuplicateKeyError(err) || errors.As(err, &se) && se.HasErrorCode(codeWriteConflict)
}
