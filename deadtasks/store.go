package deadtasks

import (
	"cmp"
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/worker"
)

// RetentionDefault is how long a record is kept of a task that is not dead: 30 days.
const RetentionDefault = 30 * 24 * time.Hour

// Options of a Store. The zero value is right for production.
type Options struct {
	// Prefix begins the name of the collection PREFIXdead. Defaults to "headway_".
	Prefix string
	// Retention is how long a record is kept of a task that is failing, was requeued or recovered. Records of dead tasks
	// stay. Defaults to [RetentionDefault].
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

// New returns a Store that keeps its documents in db. It sends nothing; see EnsureIndexes. The caller disconnects the client.
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

// EnsureIndexes creates the TTL index and the indexes that tasks are listed and found by. Without them everything works,
// slowly, and nothing is ever deleted. Calling it again, from any number of processes, does nothing.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	models := []mongo.IndexModel{
		{Keys: bson.M{fieldExpires: 1}, Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0)},
		{Keys: bson.D{{Key: fieldState, Value: 1}, {Key: fieldAt, Value: 1}}, Options: options.Index().SetName("listed")},
		{Keys: bson.M{fieldTask: 1}, Options: options.Index().SetName(fieldTask)},
	}
	if _, err := s.records.Indexes().CreateMany(ctx, models); err != nil {
		return unavailable("create the indexes of "+s.records.Name(), err)
	}
	return nil
}

func (s *Store) expiry() time.Time { return s.now().Add(s.retention) }
