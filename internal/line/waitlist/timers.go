package waitlist

import (
	"context"
	"slices"
	"strings"
	"time"
)

// The timers are a sorted set below root, "timers": a letter and a task, by when the timer is due. A task has at most
// one timer of each letter.
const (
	timerAt      = "a" // the task may start; a task that joins earlier is in no list until then
	timerStartBy = "s" // the task must have started
)

// Timer is a pair of times at which the dispatcher acts on a task. A zero time is not set; a time in the past is due
// at once.
type Timer struct {
	Task

	// At is the time until the task may start. If the task joins a waitlist earlier, it has its place from then on.
	At time.Duration
	// StartBy is the time by which the task must have started, from now.
	StartBy time.Duration
}

// SetTimers sets the timers of tasks, before they join.
func (w *Waitlist) SetTimers(ctx context.Context, timers []Timer) error {
	type timer struct {
		Name string `json:"name"`
		At   int64  `json:"at"` // microseconds from now
	}
	for some := range slices.Chunk(timers, together) {
		all := []timer{}
		for _, t := range some {
			if t.At != 0 {
				all = append(all, timer{Name: timerAt + t.String(), At: t.At.Microseconds()})
			}
			if t.StartBy != 0 {
				all = append(all, timer{Name: timerStartBy + t.String(), At: t.StartBy.Microseconds()})
			}
		}
		if err := w.run(ctx, "set timers of tasks", w.scripts.timers, args{"timers": all}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Rung is a task whose timer was due. asynq must deliver it now.
type Rung struct {
	Task

	// Waits is true if the task is in a waitlist and had to start by now.
	Waits bool
}

func rung(texts []string) (all []Rung) {
	for _, text := range texts {
		if task, err := ParseTask(text[min(1, len(text)):]); err == nil { // else something else has put it there
			all = append(all, Rung{Task: task, Waits: strings.HasPrefix(text, "S")})
		}
	}
	return all
}
