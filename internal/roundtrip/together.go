package roundtrip

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// togetherMost is how many share one round trip.
	togetherMost = 128
	// togetherTimeout bounds one round trip.
	togetherTimeout = 10 * time.Second
)

// crowded is how many have to have asked within Gather for a call to gather, where Enough is set.
const crowded = 4

// Together lets callers of this process that ask at about the same moment share a round trip: the first one waits for a moment, and
// those who ask while a call is under way come along with the next. Its fields are set before it is used; then it is safe for concurrent use.
type Together[Q, A any] struct {
	// Call asks for all of them, at most 128, and answers in their order.
	Call func(context.Context, []Q) ([]A, error)
	// Gather is how long the first that asks waits for others to come along. Zero is not at all: then only those share who ask during a call.
	Gather time.Duration
	// Enough, where it is set, has every call gather while many ask, until so many wait; while few ask, none does. Zero has the first gather, always and
	// as long as Gather.
	Enough int

	mu      sync.Mutex // guards what is below; never held during a call
	waiting []*question[Q, A]
	serving bool
	asked   [crowded]time.Time // when the last ones asked, where Enough is set
	oldest  int                // of asked
	full    chan struct{}      // closed when enough wait; nil while nobody gathers
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

// Ask returns the answer to q. When ctx has ended nothing is asked; when it ends during the call, that may be made without its caller.
func (t *Together[Q, A]) Ask(ctx context.Context, q Q) (A, error) {
	if err := ctx.Err(); err != nil {
		var none A
		return none, err
	}
	mine := &question[Q, A]{ctx: ctx, asked: q, answer: make(chan answered[A], 1)}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	t.note()
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

// note keeps when somebody asked, and lets a call begin for which enough wait. It requires that mu is held.
func (t *Together[Q, A]) note() {
	if t.Enough == 0 {
		return
	}
	t.asked[t.oldest], t.oldest = time.Now(), (t.oldest+1)%crowded
	if t.full != nil && len(t.waiting) >= t.Enough {
		close(t.full)
		t.full = nil
	}
}

// serve makes calls until nobody waits. Only the first one lets others gather: the later ones have those who came meanwhile.
func (t *Together[Q, A]) serve() {
	least := t.Gather
	for more := true; more; more = t.goesOn() {
		if t.Enough > 0 {
			t.gatherEnough()
		} else {
			t.gather(least)
			least = 0
		}
		runtime.Gosched() // whoever is about to ask comes along
		if batch := t.take(); len(batch) > 0 {
			t.answer(batch)
		}
	}
}

// gather waits for others, unless there are as many already as a call takes.
func (t *Together[Q, A]) gather(least time.Duration) {
	t.mu.Lock()
	full := len(t.waiting) >= togetherMost
	t.mu.Unlock()
	if least > 0 && !full {
		<-time.After(least)
	}
}

// gatherEnough waits for others while many ask.
func (t *Together[Q, A]) gatherEnough() {
	full := t.crowd()
	if full == nil {
		return
	}
	timer := time.NewTimer(t.Gather)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}
}

// crowd is closed when enough wait. It is nil where it is not worth waiting for that.
func (t *Together[Q, A]) crowd() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full = nil; len(t.waiting) >= t.Enough || time.Since(t.asked[t.oldest]) > t.Gather {
		return nil
	}
	t.full = make(chan struct{})
	return t.full
}

// take returns those who wait, at most togetherMost, less those whose callers have gone: what they wanted may be wrong by now.
func (t *Together[Q, A]) take() []*question[Q, A] {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(q *question[Q, A]) bool { return q.ctx.Err() != nil })
	n := min(len(t.waiting), togetherMost)
	batch := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	return batch
}

// goesOn says whether somebody waits; else the next one begins a new service.
func (t *Together[Q, A]) goesOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.serving = len(t.waiting) > 0; !t.serving {
		t.waiting = nil
	}
	return t.serving
}

// answer makes one call for the batch. The first caller lends its context's values.
func (t *Together[Q, A]) answer(batch []*question[Q, A]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), togetherTimeout)
	defer cancel()
	asked := make([]Q, len(batch))
	for i, q := range batch {
		asked[i] = q.asked
	}
	answers, err := t.Call(ctx, asked)
	for i, q := range batch {
		got := answered[A]{err: err}
		if err == nil {
			got.answer = answers[i]
		}
		q.answer <- got
	}
}
