package asynqdb

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
)

// A server that stops takes no more tasks, and may still run one.
func TestStoppingServerTakesNoTasks(t *testing.T) {
	t.Parallel()
	own, others := map[string]int{"default": 1}, map[string]int{"other": 1}
	runs := []*asynq.WorkerInfo{{TaskID: "a", Queue: "default"}, {TaskID: "b", Queue: "default"}}
	var q QueueState
	for _, server := range []*asynq.ServerInfo{
		{Queues: own, Status: "active"},
		{Queues: others, Status: "active"},
		{Queues: own, Status: "stopped", Host: "host", PID: 1, ActiveWorkers: runs},
	} {
		q = q.with(server, "default", "b")
	}
	if diff := cmp.Diff(QueueState{Workers: 1, Stopping: 1, Others: 1, Worker: "host:1"}, q); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
