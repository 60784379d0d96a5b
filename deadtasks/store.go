package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/fleet/deadletter"
)

// RetentionDefault is how long the record of a task that is not dead is stored: 30 days.
const RetentionDefault = 30 * 24 * time.Hour

// Options are the options of a Store. The zero value is right for production.
type Options struct {
	// Retention is how long a record is stored of a task that is failing, requeued or recovered. Records of dead
	// tasks stay. Defaults to [RetentionDefault].
	Retention time.Duration
}

// Store stores the records. It is safe for concurrent use, by any number of processes.
type Store struct {
	records   documents.Collection
	retention time.Duration
}

var _ deadletter.Source = (*Store)(nil)

// New returns a Store with its records in a store of documents: mongostore.Documents, or redisstore.Documents. It sends
// nothing; see EnsureIndexes.
func New(in documents.Store, o Options) *Store {
	if o.Retention <= 0 {
		o.Retention = RetentionDefault
	}
	return &Store{records: in.Collection(collection), retention: o.Retention}
}

// EnsureIndexes makes sure of the indexes, if the database needs some. Without them the Store is slow, and MongoDB
// never deletes a record. Any number of processes may call it, repeatedly.
func (s *Store) EnsureIndexes(ctx context.Context) error { return s.records.EnsureIndexes(ctx) }

func (s *Store) expiry() time.Time { return time.Now().Add(s.retention) }

var (
	// ErrUnavailable means that the database did not answer, or refused the command. A write may have been applied;
	// repeat it.
	ErrUnavailable = documents.ErrUnavailable
	// ErrMalformed means that a stored record was not written by this package.
	ErrMalformed = documents.ErrMalformed
	// ErrNotFound means that a task has no record.
	ErrNotFound = errors.New("deadtasks: no record")
	// ErrNoPayload means that a payload was too large for a document, and is no longer in asynq's archive.
	ErrNoPayload = errors.New("deadtasks: the payload is not stored")
)

// ErrTooLarge means that a record would be larger than the database accepts. It matches deadletter.ErrNotKept: a retry
// cannot succeed.
var ErrTooLarge = fmt.Errorf("deadtasks: too large for a record: %w", deadletter.ErrNotKept)

// of adds what was done to an error of a store.
func of(op string, err error) error {
	if errors.Is(err, documents.ErrTooLarge) {
		return fmt.Errorf("%w: %s: %w", ErrTooLarge, op, err)
	}
	if err != nil {
		return fmt.Errorf("deadtasks: %s: %w", op, err)
	}
	return nil
}

// change is a change of the record with a key. Apply returns whether to write it.
func change(key string, apply func(h *head, d *documents.Document) (bool, error)) documents.Change {
	return documents.Change{Key: key, Apply: func(d *documents.Document) (bool, error) {
		h, err := decodeHead(*d)
		if err != nil {
			return false, err
		}
		write, err := apply(&h, d)
		if err != nil || !write {
			return false, err
		}
		d.Group, d.At = string(h.State), h.At
		d.Head, err = bson.Marshal(h)
		return true, err
	}}
}
