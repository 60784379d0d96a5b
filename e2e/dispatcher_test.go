package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/longtest"
)

// lostMost is the longest time without starts after the dispatcher failed, in seconds of the rate.
const lostMost = 3.0

// onDuty returns the ID of the dispatcher on duty.
func (w *world) onDuty(t *testing.T) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
	defer func() { _ = client.Close() }()
	id, err := client.HGet(t.Context(), "headway:{wait}:dispatcher", "id").Result()
	if err != nil {
		t.Fatalf("find the dispatcher: %v", err)
	}
	return id
}

// duty returns the dispatcher on duty and the number of its worker, which logs the ID when it takes the duty.
func (w *world) duty(t *testing.T) (id string, worker int) {
	t.Helper()
	await(t, "a worker logs its duty", func() (bool, string) {
		id = w.onDuty(t)
		worker = slices.IndexFunc(w.workers, func(p *process) bool {
			return strings.Contains(p.log(t), `"msg":"on duty as dispatcher","dispatcher":"`+id+`"`)
		})
		return worker >= 0, id
	})
	t.Logf("%s is the dispatcher", w.workers[worker].name)
	return id, worker
}

// awaitOther waits until another dispatcher is on duty.
func (w *world) awaitOther(t *testing.T, old string) {
	t.Helper()
	began := time.Now()
	await(t, "another dispatcher", func() (bool, string) { return w.onDuty(t) != old, old })
	t.Logf("another dispatcher after %.1f s", time.Since(began).Seconds())
}

// wantLittleLost fails if more of the limit than lostMost was unused until the nth start.
func (f *figures) wantLittleLost(t *testing.T, n int) {
	t.Helper()
	m := f.Meters["requests"]
	took := f.Times[n-1].Sub(f.FirstStart).Seconds()
	lost := took - (float64(n)-m.Capacity)/m.Rate
	t.Logf("%.2f s of the limit were not used until start %d, after %.1f s", lost, n, took)
	if lost > lostMost+2*f.stood.Seconds() {
		t.Errorf("%.2f s of the limit were not used, wanted at most %g s", lost, lostMost)
	}
}

// wantOneRetry fails if more than one task has used a retry. A worker that is stopped while it dequeues
// loses the answer, and asynq delivers that task again after its lease.
func (w *world) wantOneRetry(t *testing.T) {
	t.Helper()
	if retried := w.retried(t); len(retried) > 1 || len(retried) == 1 && !strings.Contains(retried[0], "lease expired") {
		t.Error(retried)
	}
}

// The dispatcher is stopped while tasks wait, and goes on after another one has taken over. The workers run without the
// race detector, because the test judges their usage of the limit. Package fleets kills dispatchers and cuts them off.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestDispatcherStopped(t *testing.T) {
	longtest.Only(t, 40*time.Second)
	const tasks = 1200
	w := newWorld(t, requestsOnly)
	w.program = programPlain
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/3)
	id, worker := w.duty(t)
	w.workers[worker].signal(t, syscall.SIGSTOP)
	began := time.Now()
	w.awaitOther(t, id)
	pass(t, 10*time.Second-time.Since(began))
	w.workers[worker].signal(t, syscall.SIGCONT)
	w.awaitCompleted(t, tasks)
	w.wantOneRetry(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantLittleLost(t, tasks-50)
}
