package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
)

// What is woken is delivered before the backlog, in the order of the lines; asynq's own server says so.
func TestWokenTasksPassTheBacklog(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		producer := asynq.NewClientFromRedisClient(l.client)
		var due []Task
		var want []string
		for i := range 3 {
			id := fmt.Sprintf("due%d", i)
			if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("any", nil), asynq.TaskID(id), asynq.ProcessIn(time.Hour)); err != nil {
				t.Fatal(err)
			}
			due, want = append(due, Task{Queue: "default", ID: id}), append(want, id)
		}
		for i := range 10 {
			id := fmt.Sprintf("backlog%d", i)
			if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("any", nil), asynq.TaskID(id)); err != nil {
				t.Fatal(err)
			}
			want = append(want, id)
		}
		inspector := asynq.NewInspectorFromRedisClient(l.client)
		w := newWaker(l, inspector, Config{}.withDefaults())
		w.wake(t.Context(), append(slices.Clone(due), Task{Queue: "default", ID: "gone"}, Task{Queue: "none", ID: "gone"}))

		delivered := make(chan string, len(want))
		server := asynq.NewServerFromRedisClient(l.client, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond})
		if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			delivered <- id
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		var got []string
		for range want {
			select {
			case id := <-delivered:
				got = append(got, id)
			case <-t.Context().Done():
				t.Fatalf("only %q were delivered", got)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A key that asynq does not use (any more) costs nothing but the short cut.
func TestNothingIsMovedThatIsNotPending(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	if err := newFront(l.client).move(t.Context(), []Task{{Queue: "default", ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	if keys := server.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %q", keys)
	}
	server.Close()
	w := newWaker(l, asynq.NewInspectorFromRedisClient(l.client), Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults())
	w.wake(t.Context(), []Task{{Queue: "default", ID: "a"}}) // Redis is gone: told at debug level, tried again by the lease
	if len(w.notes) != 1 || w.notes[0].again == 0 {
		t.Errorf("notes are %+v", w.notes)
	}
}
