package dispatcher

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headway-go/headway/internal/line/waitlist"
)

const (
	// aliveEvery is how often a process with direct callers shows a sign of life, aliveFor how long a sign counts. The
	// callers of a killed process are removed from the waitlists after it.
	aliveEvery = time.Second
	aliveFor   = 5 * time.Second
)

// callers are the direct callers of this process that wait in waitlists. From the first one on, until endCalls, the
// process listens to the calls of the dispatcher and shows signs of life. Safe for concurrent use.
type callers struct {
	s       *Dispatcher
	process string // the name of this process in the waitlists

	mu      sync.Mutex               // guards what is below
	last    int                      // number that was given
	waiting map[string]chan struct{} // by number; each holds one call
	open    *listening               // nil before the first caller, and after endCalls
}

// listening is one time of listening.
type listening struct {
	ready chan struct{} // closed when calls are received
	ended chan struct{} // closed when the callers have to give up
	done  sync.WaitGroup
}

func newCallers(s *Dispatcher) *callers {
	return &callers{s: s, process: uuid.NewString(), waiting: map[string]chan struct{}{}}
}

// number names a new caller.
func (c *callers) number() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return strconv.Itoa(c.last)
}

// listen registers a caller, and returns when calls are received: the channel with the calls, and one that is closed
// when the scheduler stops. The error is that of ctx.
func (c *callers) listen(ctx context.Context, number string) (called, ended <-chan struct{}, err error) {
	c.mu.Lock()
	own, ok := c.waiting[number]
	if !ok {
		own = make(chan struct{}, 1)
		c.waiting[number] = own
	}
	if c.open == nil {
		fresh := &listening{ready: make(chan struct{}), ended: make(chan struct{})}
		fresh.done.Go(func() { c.run(fresh) }) //nolint:contextcheck // it serves other callers too
		c.open = fresh
	}
	open := c.open
	c.mu.Unlock()
	select {
	case <-open.ready:
		return own, open.ended, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// forget ends what listen began.
func (c *callers) forget(number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, number)
}

// run receives calls and shows signs of life until endCalls.
func (c *callers) run(l *listening) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.live(ctx)
	stop := c.s.list.ListenCalls(ctx, c.process, func(number string) { c.call(ctx, number) })
	defer stop()
	close(l.ready)
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-ticker.C:
			if c.live(ctx) {
				c.callAll()
			}
		}
	}
}

// live shows a sign of life, and says whether the one before had expired.
func (c *callers) live(ctx context.Context) (missed bool) {
	ctx, cancel := context.WithTimeout(ctx, aliveFor)
	defer cancel()
	missed, err := c.s.list.Live(ctx, c.process, aliveFor)
	if err != nil {
		c.s.log.DebugContext(ctx, "no sign of life for direct callers", slog.Any("error", err))
	}
	return missed
}

// call passes on a call. A caller that has left meanwhile leaves the waitlists too.
func (c *callers) call(ctx context.Context, number string) {
	c.mu.Lock()
	own, ok := c.waiting[number]
	c.mu.Unlock()
	if ok {
		nudge(own)
		return
	}
	c.s.after(ctx, "caller that left is still in a waitlist", func(ctx context.Context) error {
		_, err := c.s.list.Leave(ctx, []waitlist.Task{waitlist.Caller(c.process, number)})
		return err
	})
}

// callAll has all callers look for their places: they may have been removed.
func (c *callers) callAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, own := range c.waiting {
		nudge(own)
	}
}

func nudge(own chan<- struct{}) {
	select {
	case own <- struct{}{}:
	default: // it has been called already
	}
}

// endCalls ends the waits of all callers and waits for the listening to end. A later caller begins it again.
func (c *callers) endCalls() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	if open != nil {
		close(open.ended)
		open.done.Wait()
	}
}
