// Package coalesce lets concurrent callers share calls to a slow service, such as a database.
//
// At most one call for a key is under way. Requests for that key that arrive meanwhile gather, in their order, and
// the next call takes them along. A lone caller does not wait for other callers. After a shared call, the next one
// waits for as many callers as the last call had: at most as long as that call took, and at most 5 ms. So where
// many callers repeat their requests, most calls are full.
package coalesce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// MaxDefault is the default of [Group.Max].
	MaxDefault = 128
	// TimeoutDefault is the default of [Group.Timeout].
	TimeoutDefault = 10 * time.Second
	// gatherMost bounds how long a call waits for as many callers as the last call had.
	gatherMost = 5 * time.Millisecond
)

// ErrClosed is the error of [Group.Do] after [Group.Close].
var ErrClosed = errors.New("coalesce: the group is closed")

// Group shares calls for keys of type K. Set its fields before the first use. Only Call is required. A Group must
// not be copied, and is safe for concurrent use.
type Group[K comparable, Q, A any] struct {
	// Call sends requests for one key and returns one answer for each, in their order. Its error becomes the error
	// of every caller. A panic becomes an error.
	//
	// ctx has the values of the first caller's context, and ends after Timeout: not when a caller's context ends.
	// Calls for different keys may run at the same time.
	Call func(ctx context.Context, key K, requests []Q) ([]A, error)

	// Same reports whether two requests for one key may share a call. Nil means that all may. The group compares
	// the first requests of two callers, and never reorders callers: a caller whose request differs ends the call
	// before it. Same must be fast and must not use the group.
	Same func(a, b Q) bool

	// Gather is how long the first call for an idle key waits for other callers. Zero means not at all.
	Gather time.Duration

	// Max is the largest number of requests in a call. Defaults to MaxDefault.
	Max int

	// Size returns the size of a request, and MaxSize is the largest sum of sizes in a call. Zero MaxSize means no
	// bound.
	Size    func(Q) int
	MaxSize int

	// Timeout bounds one call. Defaults to TimeoutDefault.
	Timeout time.Duration

	mu     sync.Mutex // guards queues and what they contain; never held during a call
	queues map[K]*queue[Q, A]
	closed bool
	done   sync.WaitGroup // one goroutine for each entry of queues
}

// queue has the callers that wait for the next call for one key. It is in Group.queues as long as a goroutine
// serves the key.
type queue[Q, A any] struct {
	callers []*caller[Q, A]
	want    int           // this number of callers ends the gathering; zero while the queue does not gather
	enough  chan struct{} // closed when the gathering ends early
}

// caller is one Do that waits for its answers.
type caller[Q, A any] struct {
	ctx      context.Context //nolint:containedctx // lives only as long as the Do that carries it
	requests []Q
	size     int
	reply    chan reply[A] // holds one
}

type reply[A any] struct {
	answers []A
	err     error
}

// Do returns one answer for each request, in their order. The requests of one Do always share one call, also where
// they exceed Max or MaxSize. They must not change afterwards.
//
// When ctx ends before the call, the requests are not sent. When it ends during the call, they may have been
// processed. The error is ctx.Err() in both cases.
func (g *Group[K, Q, A]) Do(ctx context.Context, key K, requests ...Q) ([]A, error) {
	if err := ctx.Err(); err != nil || len(requests) == 0 {
		return nil, err
	}
	c := &caller[Q, A]{ctx: ctx, requests: requests, reply: make(chan reply[A], 1)}
	if g.MaxSize > 0 {
		for _, q := range requests {
			c.size += g.Size(q)
		}
	}
	if err := g.join(key, c); err != nil {
		return nil, err
	}
	select {
	case r := <-c.reply:
		return r.answers, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-c.reply: // an answer that is there counts, also after the end of ctx
		return r.answers, r.err
	default:
		return nil, ctx.Err()
	}
}

// Close makes every later Do return ErrClosed, and returns after the calls for all earlier ones. Each call takes at
// most Timeout. Close may be called again.
func (g *Group[K, Q, A]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, q := range g.queues {
		q.endGathering()
	}
	g.mu.Unlock()
	g.done.Wait()
}

// join adds a caller to the queue of its key, and starts a goroutine where none serves that key.
func (g *Group[K, Q, A]) join(key K, c *caller[Q, A]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	q := g.queues[key]
	if q == nil {
		if g.queues == nil {
			g.queues = map[K]*queue[Q, A]{}
		}
		q = &queue[Q, A]{}
		g.queues[key] = q
		g.done.Go(func() { g.serve(key, q) })
	}
	q.callers = append(q.callers, c)
	if q.want > 0 && len(q.callers) >= q.want {
		q.endGathering()
	}
	return nil
}

// serve makes calls for one key until no caller waits.
func (g *Group[K, Q, A]) serve(key K, q *queue[Q, A]) {
	g.gather(q, cmp.Or(g.Max, MaxDefault), g.Gather)
	for {
		runtime.Gosched() // callers that are about to join share the next call
		callers := g.take(key, q)
		if len(callers) == 0 {
			return
		}
		began := time.Now()
		g.call(key, callers)
		if n := len(callers); n > 1 {
			g.gather(q, n, min(time.Since(began), gatherMost))
		}
	}
}

// gather waits until want callers wait for the next call, or until the wait is over.
func (g *Group[K, Q, A]) gather(q *queue[Q, A], want int, wait time.Duration) {
	if wait <= 0 {
		return
	}
	g.mu.Lock()
	if g.closed || len(q.callers) >= want {
		g.mu.Unlock()
		return
	}
	enough := make(chan struct{})
	q.want, q.enough = want, enough
	g.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-enough:
	case <-timer.C:
		g.mu.Lock()
		q.want = 0
		g.mu.Unlock()
	}
}

// endGathering lets the next call begin. Group.mu is held.
func (q *queue[Q, A]) endGathering() {
	if q.want > 0 {
		close(q.enough)
		q.want = 0
	}
}

// take removes the callers of the next call from the queue, and all before them whose contexts have ended. None
// means that the key is idle.
func (g *Group[K, Q, A]) take(key K, q *queue[Q, A]) []*caller[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var together []*caller[Q, A]
	n, requests, size, most := 0, 0, 0, cmp.Or(g.Max, MaxDefault)
	for _, c := range q.callers {
		if c.ctx.Err() == nil {
			requests, size = requests+len(c.requests), size+c.size
			if len(together) > 0 && (requests > most || size > g.MaxSize ||
				g.Same != nil && !g.Same(together[0].requests[0], c.requests[0])) {
				break
			}
			together = append(together, c)
		}
		n++
	}
	clear(q.callers[:n]) // the array lives on
	if q.callers = q.callers[n:]; len(together) == 0 {
		delete(g.queues, key)
	}
	return together
}

// call makes one call for all requests of the callers, and answers each caller.
func (g *Group[K, Q, A]) call(key K, callers []*caller[Q, A]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(callers[0].ctx), cmp.Or(g.Timeout, TimeoutDefault))
	defer cancel()
	requests := callers[0].requests
	if len(callers) > 1 {
		requests = make([]Q, 0, len(callers))
		for _, c := range callers {
			requests = append(requests, c.requests...)
		}
	}
	answers, err := g.safely(ctx, key, requests)
	if err == nil && len(answers) != len(requests) {
		err = fmt.Errorf("coalesce: the call returned %d answers to %d requests", len(answers), len(requests))
	}
	for _, c := range callers {
		r := reply[A]{err: err}
		if n := len(c.requests); err == nil {
			r.answers, answers = answers[:n:n], answers[n:]
		}
		c.reply <- r
	}
}

// safely makes the call and returns its panic as an error.
func (g *Group[K, Q, A]) safely(ctx context.Context, key K, requests []Q) (answers []A, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("coalesce: the call panicked: %v", value)
		}
	}()
	return g.Call(ctx, key, requests)
}
