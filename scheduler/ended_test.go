package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/scheduler"
)

// Lines may know tasks that have ended meanwhile, and asynq's RunTask would run those again.
func TestTasksThatHaveEndedAreNotWoken(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, client redis.UniversalClient, id string) asynq.TaskState{
		"archived by an operator": func(t *testing.T, client redis.UniversalClient, id string) asynq.TaskState {
			t.Helper()
			if err := asynq.NewInspectorFromRedisClient(client).ArchiveTask("default", id); err != nil {
				t.Fatal(err)
			}
			return asynq.TaskStateArchived
		},
		"completed and kept": func(t *testing.T, client redis.UniversalClient, id string) asynq.TaskState {
			t.Helper()
			if err := asynq.NewInspectorFromRedisClient(client).RunTask("default", id); err != nil {
				t.Fatal(err)
			}
			ran := make(chan struct{}, 10)
			server := asynq.NewServerFromRedisClient(client, asynq.Config{TaskCheckInterval: 20 * time.Millisecond, LogLevel: asynq.FatalLevel})
			err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				ran <- struct{}{}
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			receive(t, ran)
			server.Shutdown()
			return asynq.TaskStateCompleted
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := miniredis.RunT(t)
			client := redisOf(t, &redis.Options{Addr: server.Addr()})
			s := newScheduler(t, client, limiter(t, store(), perSecond(2, 1)), exact())
			info, err := s.Enqueue(t.Context(), openai("a"), scheduler.Reserved(), scheduler.Retention(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			want := end(t, client, info.ID)
			looks := make(chan int, 1000)
			s.Observe(func(tasks []scheduler.Task, _ int, _ error) { looks <- len(tasks) })
			start(t, s)
			for receive(t, looks) == 0 {
			}
			receive(t, looks) // the note is sent with the next look
			if got, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo("default", info.ID); err != nil || got.State != want {
				t.Errorf("the task is %+v, %v, want it %v", got, err, want)
			}
			if server.Exists("headway:{line}:leased") || server.Exists("headway:{line}:index") {
				t.Error("a task that has ended is still being woken")
			}
		})
	}
}
