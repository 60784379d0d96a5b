package headwaytest

import (
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// tracker follows every task of the fleet by the events of its workers.
type tracker struct {
	fleet *Fleet

	mu       sync.Mutex // guards what is below
	all      map[waitlist.Task]*tracked
	starts   []*tracked // first starts, in order
	waiting  map[string]int
	late     []time.Duration // of each start
	left     int             // tasks that have not ended
	arrivals int
	none     chan struct{} // closed while left is zero
	steps    []step
	waits    int // tasks that wait
}

// tracked is what is known of one task.
type tracked struct {
	task       waitlist.Task
	line       string // tasks of one line start in the order of their arrival
	flow       string
	arrived    time.Time
	number     int       // of the arrival; zero for a task that the fleet itself enqueued
	started    time.Time // the first time
	waitsFor   []string  // the buckets that it waits for, while it waits
	deliveries int
	done       int // successful ends
	failed     bool
	ended      bool
	unsent     bool // waits at its producer
}

// step is a moment at which the number of waiting tasks changed.
type step struct {
	at    time.Time
	waits int
}

func newTracker(f *Fleet) *tracker {
	tr := &tracker{fleet: f, all: map[waitlist.Task]*tracked{}, waiting: map[string]int{}, none: make(chan struct{})}
	close(tr.none)
	return tr
}

// enqueued notes a task that was enqueued, or is about to be, and arrived at a time.
func (tr *tracker) enqueued(task waitlist.Task, args tasks.Args, arrived time.Time) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	t := tr.task(task)
	tr.arrivals++
	t.arrived, t.number = arrived, tr.arrivals
	if c, ok := args.(tasks.Charger); ok {
		charges := c.Charges()
		t.line, t.flow = lineOf(charges), flowOf(charges)
		if len(charges) == 1 && t.deliveries == 0 { // of several limits, an event says for which one it waits
			tr.wait(t, charges[0].Bucket().String())
		}
	}
}

// lineOf names the tasks that start in the order of their arrival.
func lineOf(charges []reservations.Charge) string {
	var name strings.Builder
	for _, c := range charges {
		name.WriteString(c.Bucket().String() + "\x00" + c.Flow + "\x00" + c.Priority + "\x00")
		if c.Urgent {
			name.WriteString("urgent")
		}
	}
	return name.String()
}

func flowOf(charges []reservations.Charge) string {
	for _, c := range charges {
		if c.Flow != "" {
			return c.Flow
		}
	}
	return ""
}

// task returns the record of a task, and makes it if it is new. It requires that tr.mu is held.
func (tr *tracker) task(id waitlist.Task) *tracked {
	t := tr.all[id]
	if t == nil {
		t = &tracked{task: id, arrived: time.Now()}
		tr.all[id] = t
		if tr.left++; tr.left == 1 {
			tr.none = make(chan struct{})
		}
	}
	return t
}

// wait notes the buckets that a task waits for; none means that it does not wait. It requires that tr.mu is held.
func (tr *tracker) wait(t *tracked, buckets ...string) {
	for _, b := range t.waitsFor {
		tr.count(b, -1)
	}
	for _, b := range buckets {
		tr.count(b, +1)
	}
	if before := len(t.waitsFor) > 0; before != (len(buckets) > 0) {
		if before {
			tr.waits--
		} else {
			tr.waits++
		}
		tr.steps = append(tr.steps, step{at: time.Now(), waits: tr.waits})
	}
	t.waitsFor = buckets
}

// count changes the number of tasks that wait for a bucket, and notes at its provider when that begins or ends.
func (tr *tracker) count(bucket string, by int) {
	before := tr.waiting[bucket]
	if tr.waiting[bucket] += by; before == 0 || before+by == 0 {
		tr.fleet.demand(bucket, before == 0)
	}
}

// event follows a task.
func (tr *tracker) event(e worker.Event) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	t := tr.task(waitlist.Task{Queue: e.Task.Queue, ID: e.Task.ID})
	t.unsent = false
	switch e.Kind { //nolint:exhaustive // the others change nothing for a task
	case worker.KindStarted:
		t.deliveries++
		tr.wait(t)
		tr.late = append(tr.late, e.Lateness)
		if t.line == "" {
			t.line, t.flow = lineOf(e.Charges), flowOf(e.Charges)
		}
		if t.started.IsZero() {
			t.started = time.Now()
			tr.starts = append(tr.starts, t)
		}
	case worker.KindDeferred:
		t.deliveries++
		if e.Charge.Limit != "" {
			tr.wait(t, e.Charge.Bucket().String())
		}
	case worker.KindRefused:
		if len(e.Charges) > 0 {
			tr.wait(t, e.Charges[len(e.Charges)-1].Bucket().String())
		}
	case worker.KindSucceeded:
		t.done++
		tr.end(t)
	case worker.KindArchived, worker.KindDropped, worker.KindRejected:
		t.failed = true
		tr.end(t)
	}
}

// end notes that a task has ended. It requires that tr.mu is held.
func (tr *tracker) end(t *tracked) {
	tr.wait(t)
	if t.ended {
		return
	}
	t.ended = true
	if tr.left--; tr.left == 0 {
		close(tr.none)
	}
}

// hasEnded reports whether a task has ended by now.
func (tr *tracker) hasEnded(t *tracked) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return t.ended
}

// waitsAtProducer notes whether a task waits to be enqueued.
func (tr *tracker) waitsAtProducer(task waitlist.Task, waits bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if t := tr.all[task]; t != nil {
		t.unsent = waits
	}
}

// withdrawn forgets a task that its producer could not enqueue.
func (tr *tracker) withdrawn(task waitlist.Task) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if t := tr.all[task]; t != nil && t.deliveries == 0 {
		tr.end(t)
		delete(tr.all, task)
	}
}

// done returns a channel that is closed when no task is left.
func (tr *tracker) done() <-chan struct{} {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.none
}
