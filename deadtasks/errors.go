package deadtasks

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/packed"
	"github.com/headway-go/headway/worker"
)

var (
	// ErrUnavailable is matched when the database did not answer, or turned the command away. A write may have been applied; it may be repeated.
	ErrUnavailable = errors.New("deadtasks: the database is not available")
	// ErrNotFound is a task that has no record.
	ErrNotFound = errors.New("deadtasks: no record")
	// ErrMalformed is a stored document that is not one of this package's.
	ErrMalformed = errors.New("deadtasks: malformed document")
	// ErrNoPayload is a task whose payload was too large for a document, and is in asynq's archive no more.
	ErrNoPayload = errors.New("deadtasks: the payload is not kept")
)

// ErrTooLarge is matched when a record would be larger than the database takes. It matches worker.ErrNotKept: no repetition mends it.
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
