package headwaytest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

const (
	// enqueueAgain is how soon a producer enqueues a task again that Redis did not accept.
	enqueueAgain = 500 * time.Millisecond
	// together is how many tasks of a backlog are enqueued at once.
	together = 1000
)

// Arrive enqueues tasks from now on until [Fleet.Drain] or the end of the test. The times are random, with that many a
// second on average (a Poisson process). Task returns the task of a number, from 0. While Redis is away the tasks wait
// for it at their producer.
func (f *Fleet) Arrive(perSecond float64, task func(n int) tasks.Args, options ...tasks.Options) {
	f.t.Helper()
	if !(perSecond > 0) {
		f.t.Fatalf("headwaytest: arrive: %g tasks a second: must be above zero", perSecond)
	}
	stream := f.stream()
	random := rand.New(rand.NewPCG(f.seedOf(stream), 1)) //nolint:gosec // tests repeat it
	at := time.Now()
	f.feed(stream, task, options, func(int) (time.Time, bool) {
		at = at.Add(time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)))
		return at, true
	})
}

// Replay enqueues a task at each of the times, which count from now and are in order.
func (f *Fleet) Replay(times []time.Duration, task func(n int) tasks.Args, options ...tasks.Options) {
	began := time.Now()
	f.feed(f.stream(), task, options, func(n int) (time.Time, bool) {
		if n >= len(times) {
			return time.Time{}, false
		}
		return began.Add(times[n]), true
	})
}

// Backlog enqueues tasks at once, and returns when they are enqueued.
func (f *Fleet) Backlog(count int, task func(n int) tasks.Args, options ...tasks.Options) {
	f.t.Helper()
	now := time.Now()
	for from := 0; from < count; from += together {
		var all []tasks.Args
		for n := from; n < min(count, from+together); n++ {
			all = append(all, task(n))
		}
		infos, err := f.scheduler.EnqueueMany(f.ctx, all, options...)
		if err != nil {
			f.t.Fatalf("headwaytest: enqueue a backlog: %v", err)
		}
		for i, info := range infos {
			f.tasks.enqueued(scheduler.Task{Queue: info.Queue, ID: info.ID}, all[i], now)
		}
	}
}

// Enqueue enqueues one task, and returns its name. It fails the test if Redis does not accept it.
func (f *Fleet) Enqueue(args tasks.Args, options ...tasks.Options) scheduler.Task {
	f.t.Helper()
	task, o := f.named(args, f.stream(), 0, options)
	f.tasks.enqueued(task, args, time.Now())
	if _, err := f.scheduler.Enqueue(f.ctx, args, o); err != nil {
		f.t.Fatalf("headwaytest: enqueue: %v", err)
	}
	return task
}

// feed enqueues the tasks of a stream at their times, in the background.
func (f *Fleet) feed(
	stream string, task func(n int) tasks.Args, options []tasks.Options, next func(n int) (at time.Time, more bool),
) {
	f.background.Go(func() {
		for n := 0; ; n++ {
			at, more := next(n)
			if !more || !sleepUntil(at, f.full) {
				return
			}
			args := task(n)
			id, o := f.named(args, stream, n, options)
			f.tasks.enqueued(id, args, at)
			for {
				_, err := f.scheduler.Enqueue(f.ctx, args, o)
				if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
					break
				}
				if !sleepUntil(time.Now().Add(enqueueAgain), f.ended) {
					f.tasks.withdrawn(id) // it may be enqueued, but its producer does not know
					return
				}
			}
		}
	})
}

// named returns the name of a task, and options with an ID: so a producer can enqueue the task again.
func (*Fleet) named(args tasks.Args, stream string, n int, options []tasks.Options) (scheduler.Task, tasks.Options) {
	var o tasks.Options
	if typed, ok := args.(tasks.Optioner); ok {
		o = typed.TaskOptions()
	}
	for _, over := range options {
		o = envelope.Merge(o, over)
	}
	o.ID = cmp.Or(o.ID, fmt.Sprintf("%s-%07d", stream, n))
	return scheduler.Task{Queue: cmp.Or(o.Queue, tasks.QueueDefault), ID: o.ID}, o
}

// stream names the next source of tasks.
func (f *Fleet) stream() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams++
	return fmt.Sprintf("arrivals-%d", f.streams)
}
