package headwaytest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/tasks"
)

const (
	// enqueueAgain is how soon a producer enqueues a task again that Redis did not accept.
	enqueueAgain = 500 * time.Millisecond
	// fastest is the most tasks a second that arrive.
	fastest = 1e6
	// faultEcho is how long after a fault its errors may appear: connections that it has ended are still in use.
	faultEcho = 10 * time.Second
	// together is how many tasks of a backlog are enqueued at once.
	together = 1000
)

// Arrive enqueues tasks from now on until [Fleet.Drain] or the end of the test. The times are random, with that many a
// second on average (a Poisson process). Task returns the task of a number, from 0. While Redis is away the tasks wait
// for it at their producer. A task that can't be enqueued otherwise fails the test.
func (f *Fleet) Arrive(perSecond float64, task func(n int) tasks.Args, options ...tasks.Options) {
	f.t.Helper()
	problem := ""
	if !(perSecond > 0 && perSecond <= fastest) {
		problem = fmt.Sprintf("perSecond is %g: must be above 0 and at most %g", perSecond, fastest)
	}
	f.check("Fleet.Arrive", problem, given("task", task != nil))
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
	f.t.Helper()
	problems := []string{given("task", task != nil)}
	for n, at := range times {
		if n == 0 {
			problems = append(problems, fromZero("times[0]", at))
		} else if before := times[n-1]; at < before {
			problems = append(problems, fmt.Sprintf("times[%d] is %v: must be at least times[%d], %v", n, at, n-1, before))
		}
	}
	f.check("Fleet.Replay", problems...)
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
	f.check("Fleet.Backlog", least("count", count, 0), given("task", task != nil))
	now := time.Now()
	for from := 0; from < count; from += together {
		var all []tasks.Args
		for n := from; n < min(count, from+together); n++ {
			all = append(all, task(n))
		}
		infos, err := f.scheduler.EnqueueMany(f.ctx, all, options...)
		if err != nil {
			f.fatalf("enqueue a backlog: %v", err)
		}
		for i, info := range infos {
			f.tasks.enqueued(waitlist.Task{Queue: info.Queue, ID: info.ID}, all[i], now)
		}
	}
}

// Enqueue enqueues one task, as scheduler.Scheduler.Enqueue does. It fails the test if Redis does not accept it.
func (f *Fleet) Enqueue(args tasks.Args, options ...tasks.Options) *asynq.TaskInfo {
	f.t.Helper()
	problem := ""
	if args == nil {
		problem = "args is nil: must be a task"
	}
	f.check("Fleet.Enqueue", problem)
	task, o := f.named(args, f.stream(), 0, options)
	f.tasks.enqueued(task, args, time.Now())
	info, err := f.scheduler.Enqueue(f.ctx, args, o)
	if err != nil {
		f.fatalf("enqueue: %v", err)
	}
	return info
}

// feed lets the tasks of a stream arrive at their times, in the background. Their producer enqueues them one after the
// other.
func (f *Fleet) feed(
	stream string, task func(n int) tasks.Args, options []tasks.Options, next func(n int) (at time.Time, more bool),
) {
	arrived := newOutbox()
	f.arriving.Go(func() {
		defer arrived.close()
		f.guarded("the function that returns tasks", func() {
			for n := 0; ; n++ {
				at, more := next(n)
				if !more || !f.comes(at) {
					return
				}
				args := task(n)
				if args == nil {
					f.fatalf("Fleet.Arrive: task(%d) is nil: must be a task", n)
				}
				id, o := f.named(args, stream, n, options)
				f.tasks.enqueued(id, args, at)
				f.tasks.waitsAtProducer(id, true)
				arrived.put(parcel{id: id, args: args, options: o})
			}
		})
	})
	f.background.Go(func() {
		for {
			p, ok := arrived.take(f.ended)
			if !ok || !f.send(p) {
				return
			}
		}
	})
}

// comes waits for the time of an arrival. It returns false if arrivals have ended before.
func (f *Fleet) comes(at time.Time) bool {
	return !at.After(time.Now()) && !f.closing() || sleepUntil(at, f.full) || !at.After(time.Now())
}

// send enqueues a task, and tries again while Redis is away. It returns false if the fleet ends before. A task that can
// never be enqueued fails the test.
func (f *Fleet) send(p parcel) bool {
	for {
		began := time.Now()
		_, err := f.scheduler.Enqueue(f.ctx, p.args, p.options)
		switch {
		case err == nil || errors.Is(err, asynq.ErrTaskIDConflict):
			f.tasks.waitsAtProducer(p.id, false)
			return true
		case !f.faults.covered(f.producer, began.Add(-faultEcho)):
			f.errorf("the task %s of type %q can't be enqueued: %v", p.id.ID, p.args.TaskType(), err)
			f.tasks.withdrawn(p.id)
			return true
		}
		f.failures.add(err, "producer")
		if !sleepUntil(time.Now().Add(enqueueAgain), f.ended) {
			return false
		}
	}
}

// named returns the name of a task, and options with an ID: so a producer can enqueue the task again.
func (*Fleet) named(args tasks.Args, stream string, n int, options []tasks.Options) (waitlist.Task, tasks.Options) {
	var o tasks.Options
	if typed, ok := args.(tasks.Optioner); ok {
		o = typed.TaskOptions()
	}
	for _, over := range options {
		o = envelope.Merge(o, over)
	}
	o.ID = cmp.Or(o.ID, fmt.Sprintf("%s-%07d", stream, n))
	return waitlist.Task{Queue: cmp.Or(o.Queue, envelope.QueueDefault), ID: o.ID}, o
}

// stream names the next source of tasks.
func (f *Fleet) stream() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams++
	return fmt.Sprintf("arrivals-%d", f.streams)
}
