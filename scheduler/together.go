package scheduler

import (
	"context"
	"sync"
	"time"
)

const (
	// gatherFor is how long the first that asks waits for others to come along.
	gatherFor = 500 * time.Microsecond
	// togetherMost is how many share one round trip.
	togetherMost = 128
	// togetherTimeout bounds one round trip.
	togetherTimeout = 10 * time.Second
)

// together lets callers of this process that ask at about the same moment share a round trip: the first one waits for a moment, and
// those who ask while a call is under way come along with the next. Safe for concurrent use.
type together[Q, A any] struct {
	// call asks for all of them, and answers in their order.
	call func(context.Context, []Q) ([]A, error)

	mu      sync.Mutex // guards what is below; never held during a call
	waiting []*question[Q, A]
	serving bool
}

// question is what one caller wants to know.
type question[Q, A any] struct {
	ctx    context.Context //nolint:containedctx // lives only as long as the call that carries it
	asked  Q
	answer chan answered[A] // holds one
}

type answered[A any] struct {
	answer A
	err    error
}

// ask returns the answer to q. When ctx ends before, the call may still be made without its caller.
func (t *together[Q, A]) ask(ctx context.Context, q Q) (A, error) {
	mine := &question[Q, A]{ctx: ctx, asked: q, answer: make(chan answered[A], 1)}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	first := !t.serving
	t.serving = true
	t.mu.Unlock()
	if first {
		go t.serve()
	}
	select {
	case got := <-mine.answer:
		return got.answer, got.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// serve makes calls until nobody waits, and lets some gather before each.
func (t *together[Q, A]) serve() {
	pause := time.NewTimer(gatherFor)
	defer pause.Stop()
	for more := true; more; {
		<-pause.C
		t.answer(t.take())
		pause.Reset(gatherFor)
		more = t.goesOn()
	}
}

// take returns those who wait, at most togetherMost.
func (t *together[Q, A]) take() []*question[Q, A] {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), togetherMost)
	batch := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	return batch
}

// goesOn says whether somebody waits; else the next one begins a new service.
func (t *together[Q, A]) goesOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.serving = len(t.waiting) > 0; !t.serving {
		t.waiting = nil
	}
	return t.serving
}

// answer makes one call for the batch. The first caller lends its context's values.
func (t *together[Q, A]) answer(batch []*question[Q, A]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), togetherTimeout)
	defer cancel()
	asked := make([]Q, len(batch))
	for i, q := range batch {
		asked[i] = q.asked
	}
	answers, err := t.call(ctx, asked)
	for i, q := range batch {
		got := answered[A]{err: err}
		if err == nil {
			got.answer = answers[i]
		}
		q.answer <- got
	}
}
