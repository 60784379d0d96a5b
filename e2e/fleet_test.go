package e2e_test

import (
	"fmt"
	"testing"

	"github.com/hibiken/asynq"
)

const fleet = 3

func TestFleet(t *testing.T) {
	t.Parallel()
	const tasks = 300
	w := newWorld(t, requestsOnly)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
}

// A worker that gets SIGTERM takes no more tasks, and ends when its calls have ended. The limit lets no more than the
// first tasks start, whatever time the test takes, until it is raised.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	const tasks, first = 60, 20
	w := newWorld(t, setting{
		limit:    fmt.Sprintf("{meters: {requests: {rate: 1/h, capacity: %d}}}", first),
		provider: []string{"-min-latency=1s", "-max-latency=2s"},
	})
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, 1)
	var running int
	await(t, "the first tasks run, or have run", func() (bool, string) {
		r := w.report(t)
		running = r.InFlight
		return r.InFlight+r.Accepted >= first/2, fmt.Sprintf("%d run, %d were accepted", r.InFlight, r.Accepted)
	})
	w.workers[0].terminate(t)
	if code := w.workers[0].exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("stopped with %d calls running: %s", running, describe(w.info(t)))
	r, i := w.report(t), w.info(t)
	if r.InFlight != 0 || i.Active != 0 || i.Completed != r.Accepted || i.Completed == tasks {
		t.Errorf("%d calls ran; now %d are left, %d were accepted: %s", running, r.InFlight, r.Accepted, describe(i))
	}
	w.worker(t, "limits", "set", "openai.requests", "200/s")
	w.start(t, 1)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
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
