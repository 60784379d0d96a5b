package batches

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/packed"
)

var (
	// ErrUnavailable is matched when the database did not answer, or turned the command away. Where it was a write, it
	// may have been applied; it may be repeated.
	ErrUnavailable = errors.New("batches: the database is not available")

	// ErrTooLarge is matched when a document would be larger than the database takes. No repetition mends it.
	ErrTooLarge = errors.New("batches: too large for a document")

	// ErrUnknownBatch is an ID that no batch has, or begins with.
	ErrUnknownBatch = errors.New("batches: unknown batch")

	// ErrAmbiguousBatch is the beginning of the IDs of several batches.
	ErrAmbiguousBatch = errors.New("batches: ambiguous batch")

	// ErrDifferentFile is a batch whose ID belongs to a file with another content.
	ErrDifferentFile = errors.New("the ID belongs to another file")

	// ErrCancelled is a batch that was cancelled.
	ErrCancelled = errors.New("cancelled")

	// ErrBatchID is an ID that can't name a batch.
	ErrBatchID = errors.New("batches: unusable batch ID")

	// ErrLine is a line number that no line has.
	ErrLine = errors.New("unusable line number")

	// ErrMalformed is a stored document that is not one of this package's.
	ErrMalformed = errors.New("batches: malformed document")
)

const maxID = 100

// checkID says whether id can name a batch. Its characters keep the order of the documents that are named after it.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: it has %d characters, there may be 1 to %d", ErrBatchID, len(id), maxID)
	}
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("%w: it has a %q; letters, digits, - and _ are good", ErrBatchID, c)
		}
	}
	return nil
}

func checkLine(batch string, line int) error {
	if err := checkID(batch); err != nil {
		return err
	}
	if line < 1 || line > maxLine {
		return fmt.Errorf("batches: batch %q: %w %d, there may be 1 to %d", batch, ErrLine, line, maxLine)
	}
	return nil
}

// kindOf distinguishes the fault of one document, which no repetition mends, from an unreachable database.
func kindOf(err error) error {
	if packed.TooLarge(err) {
		return ErrTooLarge
	}
	if _, ok := errors.AsType[*bson.DecodeError](err); ok {
		return ErrMalformed
	}
	return ErrUnavailable
}

// unavailable wraps what the driver said by its kind. Its errors name addresses, never credentials.
func unavailable(op, batch string, err error) error {
	if batch == "" {
		return fmt.Errorf("%w: %s batches: %w", kindOf(err), op, err)
	}
	return fmt.Errorf("%w: %s batch %q: %w", kindOf(err), op, batch, err)
}

func unavailableLine(op, batch string, line int, err error) error {
	return fmt.Errorf("%w: %s line %d of batch %q: %w", kindOf(err), op, line, batch, err)
}

const codeWriteConflict = 112

// isConflict says whether a write changed nothing because another writer was faster.
func isConflict(err error) bool {
	var se mongo.ServerError
	return errors.As(err, &se) && se.HasErrorCode(codeWriteConflict)
}
