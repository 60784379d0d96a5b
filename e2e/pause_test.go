package e2e_test

import (
	"syscall"
	"testing"
	"time"
)

// Processes are stopped in turn, one at a time and all together. That happens on a machine that is suspended, moved
// to another host or short of memory. Calls that were granted before come too late, and would meet calls that were
// granted later.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestPaused(t *testing.T) {
	measures(t, 25*time.Second)
	const tasks = 700
	w := newWorld(t, requestsOnly)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/10)
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
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantUsed(t, f.Utilization, 0.8) // 1.8 of 14 s are lost
	if f.deliveries > atMost(2.3) {
		t.Errorf("%.2f deliveries a task: waiting tasks must not be delivered again because of lost starts", f.deliveries)
	}
}
