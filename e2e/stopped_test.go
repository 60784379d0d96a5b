package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/night"
)

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

// The worker on duty as dispatcher is stopped (SIGSTOP) while tasks wait, and goes on after another one has taken over.
// Then all workers are stopped, as on a machine that is suspended. Calls that were granted before come too late then.
// The limit is kept, each task starts once, and none uses a retry. Package fleets judges how much of the limit is used.
func TestStopped(t *testing.T) {
	t.Parallel()
	night.Only(t, "stops processes at moments")
	const tasks = 500
	w := newWorld(t, requestsOnly)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/5)
	id, worker := w.duty(t)
	w.workers[worker].signal(t, syscall.SIGSTOP)
	await(t, "another dispatcher", func() (bool, string) { return w.onDuty(t) != id, id })
	w.workers[worker].signal(t, syscall.SIGCONT)
	for _, stopped := range [][]*process{w.workers, w.workers[:1], w.workers[1:], w.workers} {
		for _, p := range stopped {
			p.signal(t, syscall.SIGSTOP)
		}
		pass(t, 300*time.Millisecond)
		for _, p := range stopped {
			p.signal(t, syscall.SIGCONT)
		}
		pass(t, 700*time.Millisecond)
	}
	w.awaitCompleted(t, tasks)
	w.wantOneRetry(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
}

// wantOneRetry fails if more than one task has used a retry. A worker that is stopped while it dequeues
// loses the answer, and asynq delivers that task again after its lease.
func (w *world) wantOneRetry(t *testing.T) {
	t.Helper()
	if retried := w.retried(t); len(retried) > 1 || len(retried) == 1 && !strings.Contains(retried[0], "lease expired") {
		t.Error(retried)
	}
}
