package e2e_test

import (
	"testing"
	"time"
)

// downFor is how long a service is away.
const downFor = 2 * time.Second

// No bucket lets a task start while the store is down. Then all tasks go on, none of them with a retry.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	const tasks = 250
	s := requestsOnly
	s.cutMongo = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/2)
	w.mongoProxy.Cut()
	cut := time.Now()
	pass(t, downFor)
	back := time.Now()
	w.mongoProxy.Restore()
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantNoneGranted(t, cut.Add(downFor/2), back) // what was on its way when the connections were cut is decided
}

// Workers go on after Redis was away. A task whose answer was lost runs again.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	const tasks = 250
	s := requestsOnly
	s.cutRedis = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/2)
	w.redisProxy.Cut()
	pass(t, downFor)
	w.redisProxy.Restore()
	w.awaitCompleted(t, tasks)
	f := w.finish(t)
	if f.tasks != tasks {
		t.Errorf("%d tasks have started, wanted %d", f.tasks, tasks)
	}
}
