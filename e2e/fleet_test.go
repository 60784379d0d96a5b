package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

const fleet = 3

//nolint:paralleltest // measures a limit: it has the machine for itself
func TestFleet(t *testing.T) {
	measures(t, 10*time.Second)
	const tasks = 300
	w := newWorld(t, requestsOnly)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantUsed(t, f.Utilization, 0.7)
}

// All workers die at once and are started again later. The limit is kept, and all tasks but the running ones go on.
// asynq delivers running tasks again after their leases, which TestBatchKilledTwice waits for.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestFleetKilled(t *testing.T) {
	measures(t, 10*time.Second)
	const tasks, down = 300, 2 * time.Second
	w := newWorld(t, requestsOnly)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/2)
	for _, p := range w.workers {
		p.kill()
	}
	killed := w.info(t)
	t.Logf("killed: %s", describe(killed))
	pass(t, down)
	w.start(t, fleet)
	w.awaitCompleted(t, tasks-killed.Active)
	if now := w.info(t); now.Active != killed.Active || now.Archived > 0 {
		t.Errorf("there are %s left, wanted the %d that were running", describe(now), killed.Active)
	}
	r := w.report(t)
	t.Logf("violations %d of %d requests", r.Violations, r.Requests)
	w.wantNoViolations(t, r, &figures{})
	if len(r.Starts) < tasks-killed.Active {
		t.Errorf("%d tasks started", len(r.Starts))
	}
}

//nolint:paralleltest // measures a limit: it has the machine for itself
func TestGracefulStop(t *testing.T) {
	measures(t, 15*time.Second)
	const tasks = 300
	s := requestsOnly
	s.concurrency = 200
	s.provider = append([]string{"-min-latency=500ms", "-max-latency=1500ms"}, s.provider...)
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, 1)
	w.awaitCompleted(t, tasks/4)
	running := w.report(t).InFlight
	began := time.Now()
	w.workers[0].terminate(t)
	if code := w.workers[0].exit(t, stopWithin); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("stopped with %d calls running in %.2f s: %s", running, time.Since(began).Seconds(), describe(w.info(t)))
	r, i := w.report(t), w.info(t)
	if running == 0 || r.InFlight != 0 || i.Active != 0 || i.Completed != r.Accepted || i.Completed == tasks {
		t.Errorf("%d calls ran; now %d are left, %d were accepted: %s", running, r.InFlight, r.Accepted, describe(i))
	}
	w.start(t, 1)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
}

// wantNoRetries fails if a completed task has used a retry.
func (w *world) wantNoRetries(t *testing.T) {
	t.Helper()
	for _, retried := range w.retried(t) {
		t.Error(retried)
	}
}

// retried describes the completed tasks that have used a retry.
func (w *world) retried(t *testing.T) (all []string) {
	t.Helper()
	done, err := w.inspector.ListCompletedTasks(queue, asynq.PageSize(10_000))
	if err != nil {
		t.Fatalf("list completed tasks: %v", err)
	}
	for _, task := range done {
		if task.Retried != 0 {
			all = append(all, fmt.Sprintf("task %s has used %d retries: %s", task.ID, task.Retried, task.LastErr))
		}
	}
	return all
}
