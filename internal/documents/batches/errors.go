package batches

import (
	"errors"
	"fmt"

	"github.com/headway-go/headway/internal/documents"
)

// The errors of a Store.
var (
	// ErrUnavailable, ErrTooLarge and ErrMalformed are errors of package documents.
	ErrUnavailable = documents.ErrUnavailable
	ErrTooLarge    = documents.ErrTooLarge
	ErrMalformed   = documents.ErrMalformed

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

// of adds the batch to an error of a store.
func of(op, batch string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s batch %q: %w", op, batch, err)
}

func ofLine(op, batch string, line int, err error) error {
	return of(fmt.Sprintf("%s line %d of", op, line), batch, err)
}
