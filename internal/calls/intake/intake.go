// Package intake bounds the memory of a process for the answers of services, even if compressed answers are large.
//
// All clients of a process share a [Budget]. The first [Free] bytes of each answer take nothing from it. A longer
// answer waits once, until the budget has room for the largest answer that its client accepts. So answers never wait
// for each other while they hold a part. An answer returns the bytes that it does not need as soon as it is read.
//
// A held answer counts three times, because its stored form may be twice as large as the answer itself. A budget
// bounds these bytes. Go's heap may be twice as large: also set GOMEMLIMIT.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"
)

const (
	// BudgetDefault is the size of a budget in bytes.
	BudgetDefault = 256 << 20
	// Free is the number of bytes of each answer that take nothing from the budget.
	Free = 256 << 10
	// copies is the number of copies of a body in memory while it is read and parsed.
	copies = 2
	// heldCopies is how often a held body counts: itself, and its stored form.
	heldCopies = 3
)

// maxHeader bounds the headers of an answer, in bytes.
const maxHeader = 64 << 10

// Transport returns a new transport for answers with bounded headers, which keeps as many connections as are used at
// once. If a program has replaced http.DefaultTransport by a type of its own, Transport returns that.
func Transport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	transport := standard.Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes = 0, 1000, maxHeader
	return transport
}

// ErrTooLarge means that an answer is longer than its client accepts.
var ErrTooLarge = errors.New("the answer is too large")

// Budget is a number of bytes that answers share. It is safe for concurrent use.
type Budget struct {
	size int64
	room *semaphore.Weighted
}

// New returns a budget of size bytes. Zero and below mean BudgetDefault.
func New(size int64) *Budget {
	if size <= 0 {
		size = BudgetDefault
	}
	return &Budget{size: size, room: semaphore.NewWeighted(size)}
}

// holding is what an answer takes from its budget until the caller of Hold releases it.
type holding struct {
	budget *Budget
	bytes  int64
}

func (h *holding) release() {
	if h.bytes > 0 {
		h.budget.room.Release(h.bytes)
	}
	h.bytes = 0
}

type holdingKey struct{}

// Hold returns a context for reading one answer. The answer counts against its budget until release is called, not only
// while it is read. Release may be called again, but not while the answer is read. Read only one answer with each such
// context: a second one may wait for room that the first one holds.
func Hold(ctx context.Context) (held context.Context, release func()) {
	h := &holding{}
	return context.WithValue(ctx, holdingKey{}, h), h.release
}

// Read reads a body of at most most bytes. Call release after the body is parsed; it is never nil. If reading the
// body fails, Read returns the bytes so far and the error. If the body is too large, it returns no bytes and
// ErrTooLarge.
func (b *Budget) Read(ctx context.Context, body io.Reader, most int64) (read []byte, release func(), err error) {
	release = func() {}
	read, err = Grow(nil, body, min(most+1, Free))
	if err == nil && int64(len(read)) <= most { // the body may be longer
		taken := min(copies*most, b.size)
		if err = b.room.Acquire(ctx, taken); err != nil {
			return nil, release, fmt.Errorf("wait for memory for an answer: %w", err)
		}
		read, err = Grow(read, body, most+1)
		kept := min(taken, heldCopies*int64(len(read)))
		b.room.Release(taken - kept)
		h, held := ctx.Value(holdingKey{}).(*holding)
		if !held {
			h = &holding{}
			release = h.release
		}
		h.budget, h.bytes = b, h.bytes+kept
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

// First is how much memory the first bytes of a body take. Each time it is full, it doubles.
const First = 8 << 10

// Grow reads on until it has until bytes, or an error, which is io.EOF at the end of the body.
func Grow(read []byte, body io.Reader, until int64) ([]byte, error) {
	for int64(len(read)) < until {
		if len(read) == cap(read) {
			larger := make([]byte, len(read), min(until, max(First, 2*int64(cap(read)))))
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
