package e2e_test

import (
	"syscall"
	"testing"
	"time"
)

// Processes stand still in turn, one and all: as on a machine that is suspended, moved to another host or short of memory. What was let start before comes too
// late, and would meet what was let start after it.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestPaused(t *testing.T) {
	measures(t, 25*time.Second)
	const tasks = 700
	w := newWorld(t, requestsOnly)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/10, time.Minute)
	for _, paused := range [][]*process{
		w.workers, w.workers[:1], append(w.workers[:fleet:fleet], w.provider),
		w.workers[1:], w.workers, append(w.workers[:fleet:fleet], w.provider),
	} {
		for _, p := range paused {
			p.signal(t, syscall.SIGSTOP)
		}
		pass(t, 300*time.Millisecond)
		for _, p := range paused {
			p.signal(t, syscall.SIGCONT)
		}
		pass(t, 1200*time.Millisecond)
	}
	w.awaitCompleted(t, tasks, time.Minute)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantUsed(t, f.Utilization, 0.8) // 1.8 of 14 s are lost
	if f.deliveries > atMost(2.3) {
		t.Errorf("%.2f deliveries a task: those who wait are not set back by what is lost", f.deliveries)
	}
}
