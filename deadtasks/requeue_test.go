package deadtasks_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/envelope"
)

func TestRequeueAsItWas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		record(t, s, died(1), died(2))
		if r := requeue(t, s, q, deadtasks.Filter{ID: "task-1"}); r != (deadtasks.Report{Requeued: 1}) {
			t.Errorf("%+v", r)
		}
		info, err := q.inspector.GetTaskInfo("default", "task-1")
		if err != nil {
			t.Fatal(err)
		}
		d := died(1)
		if info.State != asynq.TaskStatePending || info.Type != d.Type || string(info.Payload) != string(d.Payload) ||
			info.MaxRetry != d.MaxRetry || info.Retried != 0 ||
			info.Timeout != d.Timeout || info.Retention != d.Retention {
			t.Errorf("%+v", info)
		}
		delete(info.Headers, "headway-requeue")
		if diff := cmp.Diff(d.Headers, info.Headers); diff != "" {
			t.Error(diff)
		}
		if r := requeue(t, s, q, deadtasks.Filter{ID: "task-1"}); r != (deadtasks.Report{}) {
			t.Errorf("requeued twice: %+v", r)
		}
		if got := only(t, s, "task-1"); got.State != deadtasks.StateRequeued || len(got.Requeues) != 1 ||
			len(got.Attempts) != 1 {
			t.Errorf("%+v", got)
		}
		d.Headers = info.Headers
		d.Headers["headway-requeue"] = "token"
		d.Last.Number = 5
		record(t, s, d) // the task dies again
		if got := only(t, s, "task-1"); got.State != deadtasks.StateDead || len(got.Requeues) != 1 ||
			len(got.Attempts) != 2 || got.Headers["headway-requeue"] != "" {
			t.Errorf("%+v", got)
		}
		if q.state(t, "task-2") != 0 {
			t.Error("task-2 was enqueued as well")
		}
	})
}

func TestRequeueChooses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		other := died(7)
		other.Queue, other.Type = "other", "report"
		of := died(8)
		of.ID, of.Payload = "batch1-42-1", []byte(`{"batch":{"id":"batch1","line":42,"round":1}}`)
		like := died(9)
		like.ID = "report-42-0" // an ID like that of a request of a batch
		record(t, s, died(1), died(2), other, of, like)
		if r := requeue(t, s, q, deadtasks.Filter{
			Queue: "other", Type: "report",
			Error: "broken 1",
		}); r != (deadtasks.Report{Requeued: 1}) {
			t.Errorf("%+v", r)
		}
		if r := requeue(t, s, q, deadtasks.Filter{Error: "oken 0"}); r != (deadtasks.Report{Requeued: 1, OfBatches: 1}) ||
			q.state(t, "task-2") != asynq.TaskStatePending {
			t.Errorf("%+v", r)
		}
		if r := requeue(t, s, q, deadtasks.Filter{}); r != (deadtasks.Report{Requeued: 2, OfBatches: 1}) ||
			q.state(t, "report-42-0") != asynq.TaskStatePending {
			t.Errorf("%+v", r)
		}
		if got := only(t, s, of.ID); got.State != deadtasks.StateDead || got.Batch != "batch1" {
			t.Errorf("%+v", got)
		}
	})
}

// A person ran the task again with asynq's tools: Requeue does not enqueue it, and it is not dead any more.
func TestRequeueWhatIsInTheQueue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		record(t, s, died(1))
		if _, err := asynq.NewClientFromRedisClient(q.client).Enqueue(asynq.NewTask("mail", nil),
			asynq.TaskID("task-1")); err != nil {
			t.Fatal(err)
		}
		if r := requeue(t, s, q, deadtasks.Filter{}); r != (deadtasks.Report{Present: 1}) {
			t.Errorf("%+v", r)
		}
		if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Size != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

func TestTwoRequeuesAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		const many = 300
		var dead []deadletter.Task
		for n := range many {
			dead = append(dead, died(n))
		}
		record(t, s, dead...)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if _, err := s.Requeue(t.Context(), q.client, deadtasks.Filter{}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if r := requeue(t, s, q, deadtasks.Filter{}); r.Requeued > 0 {
			t.Errorf("some were left: %+v", r)
		}
		if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Size != many || info.Pending != many {
			t.Errorf("%+v, %v", info, err)
		}
		if n, err := s.Count(t.Context(),
			deadtasks.Filter{States: []deadtasks.State{deadtasks.StateRequeued}}); err != nil || n != many {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		record(t, s, died(1))
		if _, err := asynq.NewClientFromRedisClient(q.client).Enqueue(asynq.NewTask("mail", nil),
			asynq.TaskID("task-1")); err != nil {
			t.Fatal(err)
		}
		if err := q.inspector.ArchiveTask("default", "task-1"); err != nil {
			t.Fatal(err)
		}
		task := only(t, s, "task-1")
		if err := s.Delete(t.Context(), q.client, task); err != nil {
			t.Fatal(err)
		}
		if q.state(t, "task-1") != 0 {
			t.Error("asynq's archive still has the task: a worker would find it there")
		}
		if err := s.Delete(t.Context(), q.client, task); !errors.Is(err, deadtasks.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

// An expired task may start at any time after its requeue.
func TestRequeueDropsTheDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		d := died(1)
		d.Cause = deadletter.CauseExpired
		d.Headers = map[string]string{envelope.HeaderStartBy: "1", envelope.HeaderVersion: "1"}
		record(t, s, d)
		requeue(t, s, q, deadtasks.Filter{ID: "task-1"})
		info, err := q.inspector.GetTaskInfo("default", "task-1")
		if err != nil || info.Headers[envelope.HeaderStartBy] != "" || info.Headers[envelope.HeaderVersion] != "1" {
			t.Errorf("%+v, %v", info, err)
		}
	})
}
