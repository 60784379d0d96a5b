package headwaytest

import (
	"sync"

	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/tasks"
)

// parcel is a task that has arrived at its producer.
type parcel struct {
	id      waitlist.Task
	args    tasks.Args
	options tasks.Options
}

// outbox holds the tasks that wait at a producer, in order.
type outbox struct {
	changed chan struct{} // holds one

	mu     sync.Mutex // guards what is below
	queue  []parcel
	closed bool
}

func newOutbox() *outbox { return &outbox{changed: make(chan struct{}, 1)} }

func (b *outbox) put(p parcel) {
	b.mu.Lock()
	b.queue = append(b.queue, p)
	b.mu.Unlock()
	b.wake()
}

// close says that no more tasks come.
func (b *outbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wake()
}

func (b *outbox) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// take waits for the next task. It returns false if none comes, or end is closed before.
func (b *outbox) take(end <-chan struct{}) (parcel, bool) {
	for {
		if p, closed := b.first(); p != nil || closed {
			if p == nil {
				return parcel{}, false
			}
			return *p, true
		}
		select {
		case <-b.changed:
		case <-end:
			return parcel{}, false
		}
	}
}

// first removes the first task. Closed says that there is none, and none comes.
func (b *outbox) first() (p *parcel, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil, b.closed
	}
	p, b.queue = &b.queue[0], b.queue[1:]
	return p, false
}
