package files

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNoContent means that a content, or a part of it, is not stored.
var ErrNoContent = errors.New("the content of the file is not stored")

const (
	// unfinished is how long a content is stored at least whose Expire does not come, as its upload breaks off. Uploads
	// take less.
	unfinished = 2 * time.Hour
	// slack is how much longer a content is stored than what uses it: clocks differ.
	slack = time.Hour
)

// gone is the end of a content that is to be deleted now.
var gone = time.UnixMilli(1).UTC() //nolint:gochecknoglobals // a constant

// Contents store contents under IDs of owned.NewID, as InFolder and InDocuments do. A content is streamed, and never
// whole in memory. Contents are safe for concurrent use, by any number of processes.
type Contents interface {
	// Create stores a new content, and returns its bytes. An error is that of the reader, or of the store. Without
	// Expire the content, or what came of it, goes away some hours later.
	Create(ctx context.Context, id string, from io.Reader) (size int64, err error)
	// Open reads a content of a size. An error of it, or of its reader, matches ErrNoContent if it is not whole.
	Open(ctx context.Context, id string, size int64) (io.ReadCloser, error)
	// Expire says when a content goes away, which may be earlier than it was said before. A past time deletes it. One
	// that is not stored is no error.
	Expire(ctx context.Context, id string, at time.Time) error
	// Sweep makes sure that expired contents go away. It is called at the start, and repeatedly.
	Sweep(ctx context.Context) error
	Close() error
}
