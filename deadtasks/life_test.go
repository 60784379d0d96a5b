package deadtasks_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

type mail struct {
	To string `json:"to"`
}

func (mail) TaskType() string               { return "mail" }
func (mail) Charges() []reservations.Charge { return nil }

// start runs a worker until the test ends.
func start(
	t *testing.T, s *deadtasks.Store, q queue, handler func(context.Context, *worker.Job[mail]) error,
) *worker.Worker {
	t.Helper()
	w, err := worker.New(q.client, nil, worker.Config{
		Dead: s, SweepEvery: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, handler)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

// eventually polls, because asynq sends no event when the state of a task changes in Redis.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond) //gate:ok polls until patience ends
	defer tick.Stop()
	timeout := time.NewTimer(3 * time.Minute) //gate:ok patience is minutes
	defer timeout.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A task dies, is requeued with all its retries, dies again, and succeeds in the end.
func TestLifeAfterDeath(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		attempts := make(chan int, 10)
		w := start(t, s, q, func(_ context.Context, job *worker.Job[mail]) error {
			attempts <- job.Attempt
			switch len(attempts) {
			case 1:
				return tasks.Permanent(errors.New("no such address"))
			case 2:
				panic("ouch")
			case 3:
				return errors.New("busy")
			}
			return nil
		})
		info, err := w.Scheduler().Enqueue(t.Context(), mail{To: "a"}, tasks.Options{MaxRetry: 1})
		if err != nil {
			t.Fatal(err)
		}
		dies := func(id string) {
			t.Helper()
			eventually(t, "it is archived", func() bool { return q.state(t, id) == asynq.TaskStateArchived })
			if got := only(t, s, id); got.State != deadtasks.StateDead {
				t.Fatalf("%+v", got)
			}
		}
		hurry := func(id string) {
			t.Helper()
			eventually(t, "it waits for its retry", func() bool { return q.state(t, id) == asynq.TaskStateRetry })
			if err := q.inspector.RunTask("default", id); err != nil {
				t.Fatal(err)
			}
		}
		dies(info.ID)
		requeue(t, s, q, deadtasks.Filter{})
		hurry(info.ID) // after the panic
		dies(info.ID)  // after "busy"
		got := only(t, s, info.ID)
		var texts []string
		for _, a := range got.Attempts {
			texts = append(texts, a.Error)
		}
		if len(texts) != 3 || texts[0] != "no such address" || texts[1] != "handler panicked: ouch" || texts[2] != "busy" ||
			got.Cause != deadletter.CauseRetries {
			t.Errorf("%q of %+v", texts, got)
		}
		requeue(t, s, q, deadtasks.Filter{ID: info.ID})
		eventually(t, "it is done", func() bool { return q.state(t, info.ID) == 0 })
		if got := only(t, s, info.ID); got.State != deadtasks.StateRequeued || len(got.Requeues) != 2 ||
			len(attempts) != 4 {
			t.Errorf("%d attempts, %+v", len(attempts), got)
		}
		if r := requeue(t, s, q, deadtasks.Filter{ID: info.ID}); r != (deadtasks.Report{}) || q.state(t, info.ID) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A worker is killed after it wrote the record and before asynq archived the task. The task is delivered again and
// succeeds.
func TestKilledBetweenRecordAndArchive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		w := start(t, s, q, func(_ context.Context, job *worker.Job[mail]) error {
			if job.Attempt == 1 {
				return errors.New("busy")
			}
			return nil
		})
		info, err := w.Scheduler().Enqueue(t.Context(), mail{To: "a"})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits for its retry", func() bool { return q.state(t, info.ID) == asynq.TaskStateRetry })
		d := died(1)
		d.ID, d.Last.Number = info.ID, 1
		record(t, s, d)
		if err := q.inspector.RunTask("default", info.ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is done", func() bool { return q.state(t, info.ID) == 0 })
		if got := only(t, s, info.ID); got.State != deadtasks.StateRecovered {
			t.Errorf("%+v", got)
		}
		if r := requeue(t, s, q, deadtasks.Filter{}); r != (deadtasks.Report{}) {
			t.Errorf("it was done, and is requeued: %+v", r)
		}
	})
}

// A person archives a task. The sweep writes a record, from which the task is requeued.
func TestArchivedByHand(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s, q := newStore(t), newQueue(t)
		start(t, s, q, func(context.Context, *worker.Job[mail]) error { return nil })
		enqueuer, err := scheduler.New(q.client, nil, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		info, err := enqueuer.Enqueue(t.Context(), mail{To: "a"}, tasks.Options{At: time.Now().Add(time.Hour), MaxRetry: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.inspector.ArchiveTask("default", info.ID); err != nil {
			t.Fatal(err)
		}
		dead := func() bool {
			n, err := s.Count(t.Context(), deadtasks.Filter{ID: info.ID})
			return err == nil && n == 1
		}
		eventually(t, "the record", dead)
		if got := only(t, s, info.ID); got.Cause != deadletter.CauseFound || len(got.Attempts) != 0 ||
			string(got.Payload) != `{"to":"a"}` {
			t.Errorf("%+v", got)
		}
		if r := requeue(t, s, q, deadtasks.Filter{}); r.Requeued != 1 {
			t.Errorf("%+v", r)
		}
		eventually(t, "it is done", func() bool { return q.state(t, info.ID) == 0 })
	})
}
