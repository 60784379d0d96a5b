package e2e_test

import (
	"testing"
	"time"
)

// Nothing limited may start while the store is down. Calls that were granted before may still arrive at the provider.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestStoreDown(t *testing.T) {
	measures(t, 10*time.Second)
	const tasks, down = 250, 2 * time.Second
	s := requestsOnly
	s.cutMongo = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/2)
	w.mongoProxy.Cut()
	pass(t, time.Second)
	before := w.report(t).Accepted
	pass(t, down)
	after := w.report(t).Accepted
	w.mongoProxy.Restore()
	if after != before {
		t.Errorf("%d tasks have started while the store was down", after-before)
	}
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	if f.LongestGapSeconds < down.Seconds() {
		t.Errorf("the longest gap is %.1f s", f.LongestGapSeconds)
	}
}

//nolint:paralleltest // measures a limit: it has the machine for itself
func TestRedisDown(t *testing.T) {
	measures(t, 10*time.Second)
	const tasks = 250
	s := requestsOnly
	s.cutRedis = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/2)
	w.redisProxy.Cut()
	pass(t, 2*time.Second)
	w.redisProxy.Restore()
	w.awaitCompleted(t, tasks)
	f := w.finish(t)
	if f.tasks != tasks {
		t.Errorf("%d tasks have started, wanted %d", f.tasks, tasks)
	}
}
