package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headway-go/headway/internal/calls/intake"
)

const (
	// bodyFree is how large a body may be that takes nothing from the memory of bodies. The number of connections bounds
	// what such bodies take.
	bodyFree = 16 << 10
	// bodyCopies is how often a body is in memory while it is read and estimated. After that it is there once.
	bodyCopies = 3
	// memoryPatience is how long a body waits for memory, in total.
	memoryPatience = 30 * time.Second
	// bufferBytes is how much of an answer is passed on at once.
	bufferBytes = 32 << 10
)

var (
	errFull     = errors.New("the bodies of other calls take all memory")
	errTooLarge = errors.New("the body is too large")
)

// memory is what the bodies of all calls take together.
type memory struct {
	size int64
	room *semaphore.Weighted
}

func newMemory(size int64) *memory { return &memory{size: size, room: semaphore.NewWeighted(size)} }

// share is what one body takes of the memory. Release it.
type share struct {
	of    *memory
	bytes int64
}

// extend takes memory for reading a body that has grown to a size, as soon as there is some. A body that has not
// arrived takes none: so a caller that stops in the middle keeps no more from others than it has sent.
func (s *share) extend(ctx context.Context, size int64) error {
	more := s.need(size, bodyCopies) - s.bytes
	if more <= 0 { // even a share of nothing would wait behind others
		return nil
	}
	if s.of.room.Acquire(ctx, more) != nil {
		return context.Cause(ctx)
	}
	s.bytes += more
	return nil
}

// keep returns what is more than a body of a size takes that has been read.
func (s *share) keep(size int64) {
	left := min(s.bytes, s.need(size, 1))
	s.of.room.Release(s.bytes - left)
	s.bytes = left
}

func (s *share) release() { s.keep(0) }

// need is what copies of a body take. If they are above the whole memory, they take all of it.
func (s *share) need(size, copies int64) int64 {
	if size <= bodyFree {
		return 0
	}
	return min(copies*size, s.of.size)
}

// readBody reads the body of a request, of at most most bytes. Each has its time to arrive, without the time in which
// it waits for memory.
func (s *share) readBody(w http.ResponseWriter, r *http.Request, most int64) (text []byte, err error) {
	if r.ContentLength > most {
		return nil, errTooLarge
	}
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	control := http.NewResponseController(w)
	ends, patience := time.Now().Add(bodyPatience*time.Duration(1+most>>23)), memoryPatience
	for until := int64(0); err == nil && int64(len(text)) <= most; {
		until = min(most+1, max(intake.First, 2*until))
		began := time.Now()
		ctx, cancel := context.WithTimeoutCause(r.Context(), patience, errFull)
		full := s.extend(ctx, until)
		cancel()
		if full != nil {
			return nil, full
		}
		waited := time.Since(began)
		ends, patience = ends.Add(waited), patience-waited
		// A recorder in a test has no deadlines.
		_ = control.SetReadDeadline(ends)
		text, err = intake.Grow(text, r.Body, until)
	}
	switch {
	case int64(len(text)) > most:
		return nil, errTooLarge
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	_ = control.SetReadDeadline(time.Time{})
	if cap(text) > 2*len(text) { // it may be held for long
		text = bytes.Clone(text)
	}
	return text, nil
}

// buffers are used again and again to pass on answers.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[]byte); ok {
		return *kept
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(one []byte) { b.pool.Put(&one) }
