package batches

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Finisher stores results. It is a [*Store], or what stands before one.
type Finisher interface {
	FinishMany(ctx context.Context, results []Result) []Outcome
}

// WriterOptions bound what a [Writer] sends at once. The zero value is right for production.
type WriterOptions struct {
	Count   int           // of results; defaults to 128
	Bytes   int           // of bodies and requests, before compression; defaults to 8 MB. A single result may be larger
	Timeout time.Duration // of one round trip; defaults to 30 s
}

// Writer lets handlers of one process that end at the same moment share a round trip: while one is under way, results gather,
// and the next one takes them along. A lone caller waits for nobody. What waits is bounded by the number of callers. Safe for
// concurrent use.
type Writer struct {
	store Finisher
	o     WriterOptions

	mu      sync.Mutex // guards what follows; never held while the database is asked
	waiting []*finisher
	busy    bool // serve is running
	closed  bool
	done    sync.WaitGroup
}

// finisher is one caller that waits.
type finisher struct {
	ctx    context.Context //nolint:containedctx // lives only as long as the call that carries it
	result Result
	answer chan Outcome // holds one
}

func (f *finisher) size() int {
	n := len(f.result.Request)
	if f.result.Response != nil {
		n += len(f.result.Response.Body)
	}
	return n
}

// NewWriter returns a Writer to store. Close it before the client of the store is disconnected.
func NewWriter(store Finisher, o WriterOptions) *Writer {
	if o.Count <= 0 {
		o.Count = 128
	}
	if o.Bytes <= 0 {
		o.Bytes = 8_000_000
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	return &Writer{store: store, o: o}
}

// Finish does what [Store.Finish] does. When ctx ends first, the result may be stored nevertheless. After Close the error
// is [ErrClosed].
func (w *Writer) Finish(ctx context.Context, r Result) (first bool, err error) {
	f := &finisher{ctx: ctx, result: r, answer: make(chan Outcome, 1)}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false, ErrClosed
	}
	w.waiting = append(w.waiting, f)
	if !w.busy {
		w.busy = true
		w.done.Go(w.serve)
	}
	w.mu.Unlock()
	select {
	case o := <-f.answer:
		return o.First, o.Err
	case <-ctx.Done():
		return false, fmt.Errorf("batches: finish line %d of batch %q: %w", r.Line, r.Batch, ctx.Err())
	}
}

// Close takes no more results, and returns when those that were given are stored, or when ctx ends.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	stored := make(chan struct{})
	go func() {
		w.done.Wait()
		close(stored)
	}()
	select {
	case <-stored:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("batches: close the writer while results are being stored: %w", ctx.Err())
	}
}

// serve stores whatever has gathered until nothing is left.
func (w *Writer) serve() {
	for {
		gathered := w.take()
		if gathered == nil {
			return
		}
		w.trip(gathered)
	}
}

// take returns what shares the next round trip, less those whose callers have gone. Nil ends the service.
func (w *Writer) take() []*finisher {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(f *finisher) bool { return f.ctx.Err() != nil })
	n, bytes := 0, 0
	for n < len(w.waiting) && n < w.o.Count {
		bytes += w.waiting[n].size()
		if n > 0 && bytes > w.o.Bytes {
			break
		}
		n++
	}
	if n == 0 {
		w.waiting, w.busy = nil, false
		return nil
	}
	gathered := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	return gathered
}

// trip makes one round trip and answers everybody in it. The first caller lends its context's values.
func (w *Writer) trip(gathered []*finisher) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(gathered[0].ctx), w.o.Timeout)
	defer cancel()
	results := make([]Result, len(gathered))
	for i, f := range gathered {
		results[i] = f.result
	}
	for i, o := range w.store.FinishMany(ctx, results) {
		gathered[i].answer <- o
	}
}
