package e2e_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
)

// failover is the most tasks that a failover may lose: what the master has acknowledged and not yet sent to its
// replica. Here only ends of tasks and a few deliveries are on their way.
const failover = 5

// onAddress is a world without MongoDB, whose Redis has this address.
func onAddress(t *testing.T, address string) *world {
	t.Helper()
	w := newWorld(t, requestsOnly)
	w.mongoURI, w.program, w.redisURL = "", programPlain, address
	client, err := connect.Redis(context.WithoutCancel(t.Context()), func(string) string { return address })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_ = w.inspector.Close()
	w.inspector = asynq.NewInspectorFromRedisClient(client)
	return w
}

// A Sentinel replaces the master of a fleet (kill -9): the limit is kept, and no task is lost.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	night.Only(t, "a failover takes as long as Sentinel's time-outs")
	const tasks = 300
	address, master, _ := testenv.StartSentinel(t)
	w := onAddress(t, address)
	command(t, "headway", w.env(address), smallChats(1, tasks), "batch", "-", "--config", w.config, "--limit", "openai").
		want(t, 0)
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/3)
	master.Kill()
	w.awaitAll(t, tasks)
	if f := w.finish(t); f.tasks < tasks-failover {
		t.Errorf("%d of %d tasks have started", f.tasks, tasks)
	}
}

// A cluster moves the slots of a fleet, and one of its masters is killed (kill -9): the limit is kept, and no task is
// lost.
func TestClusterMovesAndFails(t *testing.T) {
	night.Only(t, "takes 130 s") // a task of a lost delivery runs again after its lease
	t.Parallel()
	const tasks = 400
	c := testenv.StartCluster(t)
	w := onAddress(t, c.URL)
	command(t, "headway", w.env(c.URL), smallChats(1, tasks), "batch", "-", "--config", w.config, "--limit", "openai").
		want(t, 0)
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/4)
	for _, key := range []string{"headway:{wait}:index", "asynq:{default}:pending", "headway:{buckets}:epoch"} {
		owner, slot := c.Owner(t, key)
		c.Move(t, slot, owner, (owner+1)%len(c.Masters))
	}
	w.awaitDone(t, tasks/2)
	owner, _ := c.Owner(t, "asynq:{default}:pending")
	c.Masters[(owner+1)%len(c.Masters)].Kill()
	w.awaitAll(t, tasks)
	if f := w.finish(t); f.tasks < tasks-failover {
		t.Errorf("%d of %d tasks have started", f.tasks, tasks)
	}
}

// awaitDone is awaitCompleted while a Redis may be away.
func (w *world) awaitDone(t *testing.T, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d tasks done", n), func() (bool, string) {
		i, err := w.inspector.GetQueueInfo(queue)
		if err != nil {
			return false, err.Error()
		}
		return i.Completed >= n, describe(*i)
	})
	t.Logf("done: %s", describe(w.info(t)))
}

// awaitAll waits until no task is left, and all but a few are done.
func (w *world) awaitAll(t *testing.T, tasks int) {
	t.Helper()
	await(t, "all tasks done", func() (bool, string) {
		i, err := w.inspector.GetQueueInfo(queue)
		if err != nil {
			return false, err.Error()
		}
		return i.Completed >= tasks-failover && i.Size == i.Completed, describe(*i)
	})
}
