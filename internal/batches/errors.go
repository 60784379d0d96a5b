package batches

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/mongoerr"
)

// The errors of a Store.
var (
	// ErrUnavailable means that the database did not answer, or refused the command. A write may have been applied;
	// repeat it.
	ErrUnavailable = errors.New("batches: the database is not available")

	// ErrTooLarge means that a document would be larger than the database accepts. A retry cannot succeed.
	ErrTooLarge = errors.New("batches: too large for a document")

	// ErrMalformed means that a stored document was not written by this package.
	ErrMalformed = errors.New("batches: malformed document")

	// ErrUnknownBatch means that no batch has this ID, or an ID that begins with it.
	ErrUnknownBatch = errors.New("batches: unknown batch")

	// ErrAmbiguousBatch means that the IDs of several batches begin with this ID.
	ErrAmbiguousBatch = errors.New("batches: ambiguous batch")

	// ErrDifferentFile means that the ID belongs to a file with another content.
	ErrDifferentFile = errors.New("the ID belongs to another file")

	// ErrCancelled is the state of a batch whose requests are not enqueued.
	ErrCancelled = errors.New("cancelled")

	// ErrBatchID and ErrLine refuse what can't name a batch, or a line of it.
	ErrBatchID = errors.New("batches: unusable batch ID")
	ErrLine    = errors.New("unusable line number")
)

const maxID = 100

// checkID returns an error if id can't name a batch. The allowed characters keep documents in the order of their
// lines.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: it has %d characters, must have 1-%d", ErrBatchID, len(id), maxID)
	}
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("%w: it contains %q; only letters, digits, '-' and '_' are allowed", ErrBatchID, c)
		}
	}
	return nil
}

func checkLine(batch string, line int) error {
	if err := checkID(batch); err != nil {
		return err
	}
	if line < 1 || line > maxLine {
		return fmt.Errorf("batches: batch %q: %w %d: must be 1-%d", batch, ErrLine, line, maxLine)
	}
	return nil
}

// kindOf distinguishes the fault of one document, for which a retry cannot succeed, from an unreachable database.
func kindOf(err error) error {
	if mongoerr.TooLarge(err) {
		return ErrTooLarge
	}
	if _, ok := errors.AsType[*bson.DecodeError](err); ok {
		return ErrMalformed
	}
	return ErrUnavailable
}

// unavailable wraps an error of the driver by its kind. The driver's errors name addresses, never credentials.
func unavailable(op, batch string, err error) error {
	return fmt.Errorf("%w: %s batch %q: %w", kindOf(err), op, batch, err)
}

func unavailableLine(op, batch string, line int, err error) error {
	return unavailable(fmt.Sprintf("%s line %d of", op, line), batch, err)
}
