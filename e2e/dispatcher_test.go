package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/internal/testenv"
)

// lostMost is the longest time without starts after the dispatcher failed, in seconds of the rate.
const lostMost = 3.0

// dispatcherWorld has waiting tasks, and workers that each reach Redis through a proxy.
type dispatcherWorld struct {
	*world

	tasks   int
	proxies []*testenv.Proxy // one for each worker
}

// newDispatcherWorld runs until a third of the tasks is done. Its workers run without the race detector, because the
// tests judge their usage of the limit.
func newDispatcherWorld(t *testing.T, tasks int) *dispatcherWorld {
	t.Helper()
	w := &dispatcherWorld{world: newWorld(t, requestsOnly), tasks: tasks}
	w.enqueue(t, smallChats(1, tasks), "--reserve")
	for range fleet {
		proxy := testenv.NewProxy(t, w.redis.Addr())
		w.proxies = append(w.proxies, proxy)
		w.startOne(t, programPlain, w.env("redis://"+proxy.Addr()+"/0"))
	}
	w.awaitCompleted(t, tasks/3)
	return w
}

// onDuty returns the ID of the dispatcher on duty.
func (w *dispatcherWorld) onDuty(t *testing.T) string {
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
func (w *dispatcherWorld) duty(t *testing.T) (id string, worker int) {
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
func (w *dispatcherWorld) awaitOther(t *testing.T, old string) {
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

// wantOneRetry fails if more than one task has used a retry. A worker that is stopped or cut off while it dequeues
// loses the answer, and asynq delivers that task again after its lease.
func (w *dispatcherWorld) wantOneRetry(t *testing.T) {
	t.Helper()
	if retried := w.retried(t); len(retried) > 1 || len(retried) == 1 && !strings.Contains(retried[0], "lease expired") {
		t.Error(retried)
	}
}

// The tasks of the killed worker come back at the first look of asynq after 60 s.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestDispatcherKilled(t *testing.T) {
	longtest.Only(t, 110*time.Second)
	w := newDispatcherWorld(t, 900)
	id, worker := w.duty(t)
	w.workers[worker].kill()
	w.awaitOther(t, id)
	w.awaitCompleted(t, w.tasks)
	f := w.finish(t)
	if f.tasks != w.tasks {
		t.Errorf("%d tasks have started, wanted %d", f.tasks, w.tasks)
	}
	f.wantLittleLost(t, w.tasks-50) // at most 50 were held
}

//nolint:paralleltest // measures a limit: it has the machine for itself
func TestDispatcherStopped(t *testing.T) {
	longtest.Only(t, 40*time.Second)
	w := newDispatcherWorld(t, 1200)
	id, worker := w.duty(t)
	w.workers[worker].signal(t, syscall.SIGSTOP)
	began := time.Now()
	w.awaitOther(t, id)
	pass(t, 10*time.Second-time.Since(began))
	w.workers[worker].signal(t, syscall.SIGCONT)
	w.awaitCompleted(t, w.tasks)
	w.wantOneRetry(t)
	f := w.finish(t)
	f.wantOnce(t, w.tasks)
	f.wantLittleLost(t, w.tasks-50)
}

//nolint:paralleltest // measures a limit: it has the machine for itself
func TestDispatcherCutOff(t *testing.T) {
	longtest.Only(t, 40*time.Second)
	w := newDispatcherWorld(t, 1200)
	id, worker := w.duty(t)
	w.proxies[worker].Cut()
	began := time.Now()
	w.awaitOther(t, id)
	pass(t, 10*time.Second-time.Since(began))
	w.proxies[worker].Restore()
	w.awaitCompleted(t, w.tasks)
	w.wantOneRetry(t)
	f := w.finish(t)
	f.wantOnce(t, w.tasks)
	f.wantLittleLost(t, w.tasks-50)
}
