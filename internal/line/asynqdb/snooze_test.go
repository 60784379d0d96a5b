package asynqdb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
)

// A delivery that ends with a snooze counts no failure and archives nothing, on a first attempt and on the last one.
func TestSnooze(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]int{"with retries left": 3, "on the last attempt": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, b *bundle) {
				t.Helper()
				var snoozes asynqdb.Snoozes
				waits, until := errors.New("waiting for a while"), time.Now().Add(time.Hour).Truncate(time.Second)
				delivered := make(chan bool, 2)
				server := asynq.NewServerFromRedisClient(
					asynqdb.ForServer(b.client, asynqdb.ServerConfig{Snoozes: &snoozes}),
					asynq.Config{
						Concurrency: 1, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond,
						IsFailure: func(err error) bool { return !errors.Is(err, waits) },
					})
				if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
					id, _ := asynq.GetTaskID(ctx)
					if delivered <- true; len(delivered) == 2 {
						snoozes.Forget(queue, id)
						return asynq.SkipRetry
					}
					note := asynqdb.NewNote("limit", "a cause", waits.Error())
					snoozes.Add(queue, id, asynqdb.Snooze{Until: until, Note: note})
					return waits
				})); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Shutdown)
				task := asynq.NewTask("type", []byte("payload"))
				info, err := b.producer.EnqueueContext(t.Context(), task, asynq.MaxRetry(attempts), asynq.TaskID("id"))
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "the task waits", func() bool {
					info, err = b.inspector.GetTaskInfo(queue, "id")
					return err == nil && info.State == asynq.TaskStateRetry
				})
				if info.Retried != 0 || info.LastErr != waits.Error() || !info.NextProcessAt.Equal(until) {
					t.Errorf("it waits as %+v", info)
				}
				state, err := b.State(t.Context(), queue, "id")
				if err != nil || !state.Note.Of(info.LastErr) || state.Note.Cause != "a cause" || state.Note.Of("another failure") {
					t.Errorf("the note is %+v, %v", state.Note, err)
				}
				stats, err := b.inspector.GetQueueInfo(queue)
				if err != nil || stats.Failed != 0 || stats.Processed != 0 || stats.Active != 0 {
					t.Errorf("the queue counts %+v, %v", stats, err)
				}
				if got := b.wake(0, "id"); got[0] != asynqdb.Woken {
					t.Errorf("woken: %v", got)
				}
				eventually(t, "the task is archived", func() bool {
					info, err = b.inspector.GetTaskInfo(queue, "id")
					return err == nil && info.State == asynq.TaskStateArchived
				})
				if state, err = b.State(t.Context(), queue, "id"); err != nil || state.Note.Of(info.LastErr) {
					t.Errorf("the note %+v counts for %q, %v", state.Note, info.LastErr, err)
				}
			})
		})
	}
}
