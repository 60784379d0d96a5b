package worker

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// sortWait is how long a newcomer waits at least where the backlog behind it is sorted.
const sortWait = time.Second

// sortBehind has the tasks that wait behind one that is new, and has to wait for long, be given their times without being delivered.
func (g *gate) sortBehind(d *delivery, c *claim) {
	if newcomer := c.place.State == "" || c.place.State == reservations.StateNew; !newcomer || c.outcome.Wait() < sortWait {
		return
	}
	queue := d.queue
	g.way.Sort(queue, g.foretell, func(n int) {
		g.log.Debug("tasks of a backlog are given their times", slog.String("queue", queue), slog.Int("tasks", n))
		hook(g.log, g.events.OnSort, Sorted{Queue: queue, Tasks: n})
	})
}

// foretell is what the task will take when it is delivered.
func (g *gate) foretell(t *asynq.Task) (charges []reservations.Charge, err error) {
	defer func() {
		if value := recover(); value != nil { // its delivery shows where
			charges, err = nil, fmt.Errorf("the charges of task %q: panic: %v", t.Type(), value)
		}
	}()
	if charges, err = g.charges(t); err == nil {
		err = tasks.CheckCharges(charges)
	}
	return charges, err
}
