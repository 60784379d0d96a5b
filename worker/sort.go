package worker

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/reservations"
)

// sortWait is how long a newcomer waits at least where the backlog behind it is sorted.
const sortWait = time.Second

// sortBehind has the tasks behind a new one, which has to wait for long, join their waitlists without being delivered.
func (g *guard) sortBehind(d *delivery, c *reservations.Claim) {
	if c.Charge.Held != "" || c.Outcome.Wait() < sortWait && !c.Behind {
		return
	}
	queue := d.queue
	g.engine.Sort(queue, g.foreseeable, func(n int) {
		g.log.Debug("tasks of a backlog joined their waitlists", slog.String("queue", queue), slog.Int("tasks", n))
		g.emit(Event{Kind: KindSorted, Task: TaskRef{Queue: queue}, Tasks: n})
	})
}

// foreseeable returns the charges of a task that was not delivered yet; none if its handler may have no limits.
func (g *guard) foreseeable(t *asynq.Task) (charges []reservations.Charge, err error) {
	if g.passed != nil && !g.passed.has(t.Type()) {
		return nil, nil
	}
	defer func() {
		if value := recover(); value != nil { // its delivery shows where
			charges, err = nil, fmt.Errorf("the charges of task %q: panic: %v", t.Type(), value)
		}
	}()
	if charges, err = g.charges(t); err == nil {
		err = envelope.CheckCharges(charges)
	}
	return charges, err
}

// passedMost is how many types are known to be limited; tasks of further types are delivered one by one.
const passedMost = 1024

// passed are the types of tasks that came through the middleware with a charge: a server may have handlers beside it.
// Safe for concurrent use.
type passed struct {
	mu    sync.RWMutex // guards types
	types map[string]bool
}

func (p *passed) has(name string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.types[name]
}

func (p *passed) add(name string) {
	if p.has(name) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.types == nil {
		p.types = map[string]bool{}
	}
	if len(p.types) < passedMost {
		p.types[name] = true
	}
}
