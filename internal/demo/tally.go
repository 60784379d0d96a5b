package demo

import (
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/worker"
)

// tally counts what the workers of the fleet tell. Safe for concurrent use.
type tally struct {
	want int
	all  chan struct{} // closed when every task has ended

	mu       sync.Mutex // guards what is below
	counts   counts
	ended    map[string]bool
	lateness []time.Duration
}

// counts is a moment of the fleet.
type counts struct {
	deliveries, running, succeeded, archived int
}

func newTally(want int) *tally {
	t := &tally{want: want, all: make(chan struct{}), ended: map[string]bool{}}
	if want == 0 {
		close(t.all)
	}
	return t
}

func (t *tally) events() worker.Events {
	return worker.Events{OnStart: t.started, OnDefer: t.deferred, OnFinish: t.finished, OnRefuse: t.refused}
}

func (t *tally) started(s worker.Start) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.deliveries++
	t.counts.running++
	if s.Waited {
		t.lateness = append(t.lateness, max(0, s.Lateness))
	}
}

func (t *tally) deferred(worker.Deferral) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.deliveries++
}

func (t *tally) finished(f worker.Finish) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.running--
	switch f.Result {
	case worker.ResultSucceeded:
		t.end(f.Task.ID, &t.counts.succeeded)
	case worker.ResultArchived:
		t.end(f.Task.ID, &t.counts.archived)
	case worker.ResultFailed, worker.ResultRefused, worker.ResultAborted, worker.ResultDropped: // it comes again, or is gone: nobody drops here
	}
}

func (t *tally) refused(r worker.Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.deliveries++
	t.end(r.Task.ID, &t.counts.archived)
}

// end counts a task once, however often it was delivered. It requires that mu is held.
func (t *tally) end(id string, count *int) {
	if t.ended[id] {
		return
	}
	t.ended[id] = true
	*count++
	if len(t.ended) == t.want {
		close(t.all)
	}
}

func (t *tally) now() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// quantile is the lateness that the share q of all starts after a wait does not exceed; zero where nothing waited.
func (t *tally) quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lateness) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.lateness))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
