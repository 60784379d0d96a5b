package worker

import (
	"fmt"
	"log/slog"
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
	if g.passed != nil && !g.passed.Get(t.Type()) {
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
