package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/worker"
)

// A task with the ID of a successor may be another task.
func TestSuccessorWhoseIDIsTaken(t *testing.T) {
	t.Parallel()
	for name, occupy := range map[string]func(b *bundle){
		"by an earlier one that failed": func(b *bundle) {
			headers := map[string]string{"headway-successor-of": "job"}
			b.send(asynq.NewTaskWithHeaders("chat", []byte("monday"), headers), asynq.TaskID("job~1"),
				asynq.ProcessIn(time.Hour))
			if err := b.inspector.ArchiveTask("default", "job~1"); err != nil {
				b.t.Fatal(err)
			}
		},
		"by an earlier one that still waits": func(b *bundle) {
			headers := map[string]string{"headway-successor-of": "job"}
			b.send(asynq.NewTaskWithHeaders("chat", []byte("monday"), headers), asynq.TaskID("job~1"),
				asynq.ProcessIn(time.Hour))
		},
		"of another program": func(b *bundle) {
			b.send(asynq.NewTask("mail:send", []byte("tuesday")), asynq.TaskID("job~1"), asynq.ProcessIn(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, slow(100))
			b.store.refuse = 1
			ran := make(chan string, 10)
			b.adopt(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
				ran <- string(task.Payload())
				return nil
			})
			occupy(b)
			before, err := b.inspector.GetTaskInfo("default", "job~1")
			if err != nil {
				t.Fatal(err)
			}
			b.send(asynq.NewTask("chat", []byte("tuesday")), asynq.TaskID("job"), asynq.MaxRetry(0))
			if f := receive(t, b.finishes); f.Task.ID != "job~2" || f.Kind != worker.KindSucceeded {
				t.Errorf("finish %+v, want that of job~2", f)
			}
			if got := receive(t, ran); got != "tuesday" {
				t.Errorf("ran %q, want tuesday's", got)
			}
			b.info("job~1", before.State) // unchanged
			b.gone("job")
		})
	}
}
