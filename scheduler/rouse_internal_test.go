package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
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
		w.wake(t.Context(), dueTasks{ordinary: append(slices.Clone(due), Task{Queue: "default", ID: "gone"}, Task{Queue: "none", ID: "gone"})})

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

func ordinary(ids ...string) (tasks dueTasks) {
	for _, id := range ids {
		tasks.ordinary = append(tasks.ordinary, Task{Queue: "default", ID: id})
	}
	return tasks
}

// Those that were woken before are delivered before, urgent ones before all; all of them before the backlog.
func TestWokenTasksPassNoneThatWereWokenBefore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		producer := asynq.NewClientFromRedisClient(l.client)
		add := func(in time.Duration, prefix string, n int) (ids []string) {
			t.Helper()
			for i := range n {
				ids = append(ids, fmt.Sprintf("%s%03d", prefix, i))
				if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("any", nil), asynq.TaskID(ids[i]), asynq.ProcessIn(in)); err != nil {
					t.Fatal(err)
				}
			}
			return ids
		}
		r := newRouser(l.client, nil)
		wake := func(tasks dueTasks) {
			t.Helper()
			if _, err := r.rouse(t.Context(), "default", tasks); err != nil {
				t.Fatal(err)
			}
		}
		backlog := add(0, "backlog", 40)
		var want []string
		for n := range 12 {
			together := add(time.Hour, fmt.Sprintf("%02d-", n), 1+n*n)
			wake(ordinary(together...))
			want = append(want, together...)
		}
		urgent := add(time.Hour, "urgent", 2)
		wake(dueTasks{urgent: ordinary(urgent...).ordinary})
		mixed := add(time.Hour, "mixed", 3)
		wake(dueTasks{urgent: ordinary(mixed[0]).ordinary, ordinary: ordinary(mixed[1:]...).ordinary})
		want = slices.Concat(mixed[:1], urgent, want, mixed[1:], backlog)
		pending, err := asynq.NewInspectorFromRedisClient(l.client).ListPendingTasks("default", asynq.PageSize(1000))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(pending))
		for i, info := range pending {
			got[i] = info.ID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWakersTryAgainWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	server.Close()
	w := newWaker(l, asynq.NewInspectorFromRedisClient(l.client), Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults())
	w.wake(t.Context(), ordinary("a")) // Redis is gone: tried again by the lease
	if len(w.notes) != 1 || w.notes[0].again == 0 {
		t.Errorf("notes are %+v", w.notes)
	}
}

// The script reads and writes what asynq itself keeps: here is what it takes for granted, as the version in go.mod has it.
func TestTheScriptKnowsWhereAsynqKeepsTasks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		producer, inspector := asynq.NewClientFromRedisClient(l.client), asynq.NewInspectorFromRedisClient(l.client)
		want := map[string]string{
			"pending": "away", "active": "active", "scheduled": "woken", "retry": "woken", "archived": "unknown", "completed": "away", "none": "unknown",
		}
		add := func(id string, opts ...asynq.Option) {
			if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("any", nil), append(opts, asynq.TaskID(id), asynq.Retention(time.Hour))...); err != nil {
				t.Fatal(err)
			}
		}
		running, release := make(chan struct{}), make(chan struct{})
		server := asynq.NewServerFromRedisClient(l.client, asynq.Config{
			Concurrency: 4, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond, ShutdownTimeout: time.Second,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		})
		if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			switch id, _ := asynq.GetTaskID(ctx); id {
			case "active":
				close(running)
				<-release
			case "retry":
				return errors.New("try again")
			case "archived":
				return asynq.SkipRetry
			}
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		t.Cleanup(func() { close(release) })
		states := map[string]asynq.TaskState{
			"active": asynq.TaskStateActive, "retry": asynq.TaskStateRetry, "archived": asynq.TaskStateArchived, "completed": asynq.TaskStateCompleted,
		}
		for id := range states {
			add(id)
		}
		<-running
		for id, state := range states {
			eventually(t, id+" is "+state.String(), func() bool {
				info, err := inspector.GetTaskInfo("default", id)
				return err == nil && info.State == state
			})
		}
		if err := inspector.PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		add("pending")
		add("scheduled", asynq.ProcessIn(time.Hour))
		states["pending"], states["scheduled"], states["retry"] = asynq.TaskStatePending, asynq.TaskStatePending, asynq.TaskStatePending

		ids := slices.Sorted(maps.Keys(want))
		told, err := newRouser(l.client, nil).rouse(t.Context(), "default", ordinary(ids...))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i, id := range ids {
			got[id] = told[i]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for id, state := range states {
			if info, failed := inspector.GetTaskInfo("default", id); failed != nil || info.State != state {
				t.Errorf("%s is %+v (%v), want %v", id, info, failed, state)
			}
		}
		queue, err := inspector.GetQueueInfo("default")
		if err != nil {
			t.Fatal(err)
		}
		if queue.Pending != 3 || queue.Scheduled != 0 || queue.Retry != 0 || queue.Latency < 0 || queue.Latency > time.Minute {
			t.Errorf("the queue is %+v", queue)
		}
	})
}

// Should asynq keep its tasks otherwise, its Inspector wakes them. Here it is the type of a key that is not as expected.
func TestWhatTheScriptDoesNotKnowIsLeftToTheInspector(t *testing.T) {
	t.Parallel()
	l, _ := onMini(t)
	producer, inspector := asynq.NewClientFromRedisClient(l.client), asynq.NewInspectorFromRedisClient(l.client)
	for _, id := range []string{"a", "b"} {
		if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("any", nil), asynq.TaskID(id), asynq.ProcessIn(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range map[string]string{"a": `return redis.error_reply("WRONGTYPE")`, "b": `return {"unknown"}`} {
		r := newRouser(l.client, inspector)
		r.script = redis.NewScript(script)
		if notes := r.wake(t.Context(), ordinary(name)); notes[0].again != 0 {
			t.Errorf("%s: %+v", name, notes)
		}
		if info, err := inspector.GetTaskInfo("default", name); err != nil || info.State != asynq.TaskStatePending {
			t.Errorf("%s is %+v (%v)", name, info, err)
		}
	}
}

// eventually polls: asynq changes a task's state in Redis and tells nobody.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		}
	}
}
