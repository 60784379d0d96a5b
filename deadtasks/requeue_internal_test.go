package deadtasks

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/test/memredis"
)

// A requeue is killed after each of its steps. It is called again at once, or after the task has run to its end.
func TestRequeueKilledAnywhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		until     int  // number of completed steps.
		archived  bool // asynq's archive still has the task
		runs      bool // the task runs to its end before the second call
		diesAgain bool // that end is a failure without a report.
		want      int  // how often the task is in the queue afterwards
	}{
		"nothing":                               {until: 0, want: 1},
		"nothing, in the archive":               {until: 0, archived: true, want: 1},
		"held":                                  {until: 1, want: 1},
		"held, from the archive":                {until: 1, archived: true, want: 1},
		"claimed":                               {until: 2, want: 1},
		"released":                              {until: 3, want: 1},
		"released and done":                     {until: 3, runs: true, want: 0},
		"released, and archived without a word": {until: 3, diesAgain: true, want: 1},
		"all":                                   {until: 4, want: 1},
		"all and done":                          {until: 4, runs: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, id := prepared(t, tc.archived)
				killedAfter(t, r, tc.until)
				switch {
				case tc.runs:
					if err := r.inspector.DeleteTask("default", id); err != nil { // asynq deletes done tasks
						t.Fatal(err)
					}
				case tc.diesAgain:
					if err := r.inspector.ArchiveTask("default", id); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					if _, err := r.requeue(t.Context(), Filter{}, nil); err != nil {
						t.Fatal(err)
					}
				}
				info, err := r.inspector.GetQueueInfo("default")
				if err != nil {
					t.Fatal(err)
				}
				if info.Pending != tc.want || info.Size != tc.want {
					t.Errorf("%d pending, %d in all, want %d: %+v", info.Pending, info.Size, tc.want, info)
				}
				if n, err := r.store.Count(t.Context(), Filter{}); err != nil || n != 0 {
					t.Errorf("%d are still dead, %v", n, err)
				}
				if n, err := r.store.Count(t.Context(), Filter{States: []State{StateRequeued}}); err != nil || n != 1 {
					t.Errorf("%d are requeued, %v", n, err)
				}
			})
		})
	}
}

// A requeue reads the record before another requeue ends.
func TestRequeueBehindAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, id := prepared(t, false)
		stale := all(t, r)
		if _, err := r.requeue(t.Context(), Filter{}, nil); err != nil {
			t.Fatal(err)
		}
		if err := r.inspector.DeleteTask("default", id); err != nil { // the task is done
			t.Fatal(err)
		}
		var report Report
		if err := r.chunk(t.Context(), stale, &report, &faults{}); err != nil || report.Others != 1 || report.Requeued != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if info, err := r.inspector.GetQueueInfo("default"); err != nil || info.Size != 0 {
			t.Errorf("enqueued twice: %+v, %v", info, err)
		}
	})
}

// Two requeues run at once. One holds the task; the other one finds it held, releases it and ends before the first
// one goes on.
func TestRequeueOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, id := prepared(t, false)
		tasks := all(t, r)
		s := standing{Task: tasks[0]}
		if err := r.hold(t.Context(), &s, "token"); err != nil || s.holder != "token" {
			t.Fatalf("%+v, %v", s, err)
		}
		if report, failed := r.requeue(t.Context(), Filter{}, nil); failed != nil || report.Requeued != 1 {
			t.Fatalf("%+v, %v", report, failed)
		}
		var report Report
		err := r.letGo(t.Context(), []standing{s}, "token", &report)
		if err != nil || report.Others != 1 || report.Requeued != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if info, err := r.inspector.GetTaskInfo("default", id); err != nil || info.State != asynq.TaskStatePending {
			t.Errorf("the task is lost: %+v, %v", info, err)
		}
	})
}

// A task that fails at once after its release has been requeued all the same.
func TestRequeueOfATaskThatFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, id := prepared(t, false)
		tasks := all(t, r)
		killedAfter(t, r, 3)
		ref := deadletter.Ref{ID: id, Queue: "default", Type: "mail"}
		attempt := deadletter.Attempt{Number: 1, At: time.Now(), Error: "busy"}
		if err := r.store.Recorder().Failed(t.Context(), ref, attempt); err != nil {
			t.Fatal(err)
		}
		if err := r.store.requeued(t.Context(), tasks); err != nil {
			t.Fatal(err)
		}
		for task, err := range r.store.List(t.Context(), Filter{AnyState: true}) {
			if err != nil || task.State != StateFailing || len(task.Requeues) != 1 {
				t.Errorf("%+v, %v", task, err)
			}
		}
	})
}

func prepared(t *testing.T, archived bool) (r *requeuer, id string) {
	t.Helper()
	client := memredis.Serve(t).Client(t)
	r = newRequeuer(New(redisdocs.New(client), Options{}), client)
	id = "one"
	task := deadletter.Task{
		ID: id, Queue: "default", Type: "mail", Payload: []byte(`{}`), MaxRetry: 5,
		At: time.Now().Add(-time.Minute), Cause: deadletter.CauseRetries,
	}
	if err := r.store.Recorder().Record(t.Context(), []deadletter.Task{task}); err != nil {
		t.Fatal(err)
	}
	if archived {
		if _, err := r.client.Enqueue(asynq.NewTask("mail", task.Payload), asynq.TaskID(id)); err != nil {
			t.Fatal(err)
		}
		if err := r.inspector.ArchiveTask("default", id); err != nil {
			t.Fatal(err)
		}
	}
	return r, id
}

func all(t *testing.T, r *requeuer) (tasks []Task) {
	t.Helper()
	for task, err := range r.store.List(t.Context(), Filter{Payloads: true}) {
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// killedAfter runs the first steps of Requeue.
func killedAfter(t *testing.T, r *requeuer, until int) {
	t.Helper()
	tasks := all(t, r)
	const token = "of the first call"
	for _, step := range []func() error{
		func() error {
			s := standing{Task: tasks[0]}
			err := r.hold(t.Context(), &s, token)
			if s.holder != token {
				t.Errorf("not held: %+v", s)
			}
			if info, failed := r.inspector.GetTaskInfo("default", tasks[0].ID); failed != nil ||
				info.State != asynq.TaskStateScheduled || time.Until(info.NextProcessAt) < 24*time.Hour {
				t.Errorf("it may run: %+v, %v", info, failed)
			}
			return err
		},
		func() error {
			mine := map[string]bool{}
			err := r.store.claim(t.Context(), []string{tasks[0].key}, token, mine)
			if !mine[tasks[0].key] {
				t.Error("not claimed")
			}
			return err
		},
		func() error { return r.release(tasks[0]) },
		func() error { return r.store.requeued(t.Context(), tasks) },
	}[:until] {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
