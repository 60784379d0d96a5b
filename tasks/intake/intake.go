// Package intake bounds the memory that the answers of services take in a process, however far they unpack.
//
// A [Budget] is shared by all clients of a process. The first [Free] bytes of each answer are read without asking. An
// answer that is longer waits until the budget has room for the largest answer that its client accepts, once, so that
// answers never wait for each other while they hold a part. What an answer does not need goes back as soon as it is read.
//
// While an answer is held it counts three times: what is stored of it may be twice as large as what came. A budget
// bounds these bytes. Go's heap may be twice as large: set GOMEMLIMIT beside it.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// BudgetDefault is the size of a budget in bytes.
	BudgetDefault = 256 << 20
	// Free is the part of each answer that takes nothing from the budget, in bytes.
	Free = 256 << 10
	// copies is how often a body may be in memory while it is read and looked at.
	copies = 2
	// heldCopies is how often a body counts while it is held: itself, and the form in which it is stored.
	heldCopies = 3
)

// ErrTooLarge is matched when an answer is longer than its client accepts.
var ErrTooLarge = errors.New("the answer is too large")

// Budget is a number of bytes that answers share. Safe for concurrent use.
type Budget struct {
	size int64
	room *semaphore.Weighted
}

// New returns a budget of so many bytes. Zero and below mean BudgetDefault.
func New(size int64) *Budget {
	if size <= 0 {
		size = BudgetDefault
	}
	return &Budget{size: size, room: semaphore.NewWeighted(size)}
}

// holding is the bytes that answers keep until the release of Hold is called.
type holding struct {
	of *Budget

	mu    sync.Mutex // guards bytes
	bytes int64
}

type holdingKey struct{}

// Hold lets the answer that is read with the returned context count until release is called, not only while it is read.
// One answer is read with each such context: a second one may wait for room that the first one holds.
func (b *Budget) Hold(ctx context.Context) (held context.Context, release func()) {
	h := &holding{of: b}
	return context.WithValue(ctx, holdingKey{}, h), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		b.room.Release(h.bytes)
		h.bytes = 0
	}
}

// Read reads a body of at most so many bytes. Release is called when the body has been looked at; it is never nil. What
// was read comes back beside an error of the body, and nothing beside one that matches ErrTooLarge.
func (b *Budget) Read(ctx context.Context, body io.Reader, most int64) (read []byte, release func(), err error) {
	release = func() {}
	read, err = grow(nil, body, min(most+1, Free))
	if err == nil && int64(len(read)) <= most { // there may be more
		taken := min(copies*most, b.size)
		if err = b.room.Acquire(ctx, taken); err != nil {
			return nil, release, fmt.Errorf("wait for memory for an answer: %w", err)
		}
		read, err = grow(read, body, most+1)
		kept := min(taken, heldCopies*int64(len(read)))
		b.room.Release(taken - kept)
		release = b.releaser(ctx, kept)
	}
	switch {
	case int64(len(read)) > most:
		release()
		return nil, func() {}, fmt.Errorf("%w: above %d bytes", ErrTooLarge, most)
	case errors.Is(err, io.EOF):
		err = nil
	}
	return read, release, err
}

// releaser gives bytes back, or leaves them to the holding of the context.
func (b *Budget) releaser(ctx context.Context, bytes int64) func() {
	h, ok := ctx.Value(holdingKey{}).(*holding)
	if !ok || h.of != b {
		return func() { b.room.Release(bytes) }
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += bytes
	return func() {}
}

const firstRead = 8 << 10

// grow reads on until there are so many bytes, or an error, which is io.EOF at the end of the body.
func grow(read []byte, body io.Reader, until int64) ([]byte, error) {
	for int64(len(read)) < until {
		if len(read) == cap(read) {
			larger := make([]byte, len(read), min(until, max(firstRead, 2*int64(cap(read)))))
			copy(larger, read)
			read = larger
		}
		n, err := body.Read(read[len(read):min(int64(cap(read)), until)])
		read = read[:len(read)+n]
		if err != nil {
			return read, err
		}
	}
	return read, nil
}
