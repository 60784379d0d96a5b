package asynqdb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
)

// asynq's own server delivers woken tasks before the backlog, in their order.
func TestWakePassesTheBacklog(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, b *bundle) {
		t.Helper()
		due, backlog := []string{"due0", "due1", "due2"}, []string{"backlog0", "backlog1", "backlog2", "backlog3"}
		b.add(time.Hour, due...)
		b.add(0, backlog...)
		b.wake(0, append(due, "none")...)
		want := append(due, backlog...)
		delivered := make(chan string, len(want))
		server := asynq.NewServerFromRedisClient(b.client, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
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
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

// Urgent tasks go before all others, other tasks behind earlier woken tasks.
func TestWakeKeepsTheOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		add := func(in time.Duration, prefix string, n int) (ids []string) {
			t.Helper()
			for i := range n {
				ids = append(ids, fmt.Sprintf("%s%03d", prefix, i))
			}
			b.add(in, ids...)
			return ids
		}
		backlog := add(0, "backlog", 40)
		var want []string
		for n := range 12 {
			together := add(time.Hour, fmt.Sprintf("%02d-", n), 1+n*n)
			b.wake(0, together...)
			want = append(want, together...)
		}
		urgent := add(time.Hour, "urgent", 2)
		b.wake(2, urgent...)
		mixed := add(time.Hour, "mixed", 3)
		b.wake(1, mixed...)
		want = slices.Concat(mixed[:1], urgent, want, mixed[1:], backlog)
		if diff := cmp.Diff(want, b.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
	})
}

// A task that was woken, delivered and deferred counts as not woken when asynq makes it pending again.
func TestWakeIgnoresAnEarlierDelivery(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, b *bundle) {
		t.Helper()
		b.add(time.Hour, "again")
		b.wake(0, "again")
		b.startWith(func(context.Context, *asynq.Task) error {
			return errors.Join(errors.New("try again"), b.inspector.PauseQueue(queue))
		}, asynq.Config{DelayedTaskCheckInterval: 10 * time.Millisecond})
		eventually(t, "asynq makes the task pending", func() bool {
			info, err := b.inspector.GetTaskInfo(queue, "again")
			return err == nil && info.Retried == 1 && info.State == asynq.TaskStatePending
		})
		b.add(time.Hour, "due")
		b.wake(0, "due")
		if diff := cmp.Diff([]string{"due", "again"}, b.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
	})
}

// A key of another type, among the tasks to wake or at the head of the pending list, costs no other task its delivery.
func TestWakePassesCorruptTasks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		b.add(time.Hour, "head", "due0", "bad", "due1")
		b.wake(0, "head")
		for _, id := range []string{"head", "bad"} {
			if err := b.client.Set(t.Context(), "asynq:{"+queue+"}:t:"+id, "no hash", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		want := []asynqdb.Wake{asynqdb.Woken, asynqdb.Unknown, asynqdb.Woken}
		if diff := cmp.Diff(want, b.wake(0, "due0", "bad", "due1")); diff != "" {
			t.Errorf("wakes (-want +got):\n%s", diff)
		}
		list, err := b.client.LRange(t.Context(), "asynq:{"+queue+"}:pending", 0, -1).Result()
		if diff := cmp.Diff([]string{"head", "due1", "due0"}, list); diff != "" || err != nil {
			t.Errorf("pending, the next one last (-want +got):\n%s%v", diff, err)
		}
	})
}

// The script reads and writes asynq's own data. This test compares it with the asynq version in go.mod.
func TestWakeKnowsEachState(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, b *bundle) {
		t.Helper()
		want := map[string]asynqdb.Wake{
			"pending": asynqdb.Away, "active": asynqdb.Active, "scheduled": asynqdb.Woken, "retry": asynqdb.Woken,
			"archived": asynqdb.Unknown, "completed": asynqdb.Away, "none": asynqdb.Unknown,
		}
		running, release := make(chan struct{}), make(chan struct{})
		b.start(func(ctx context.Context, _ *asynq.Task) error {
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
		})
		t.Cleanup(func() { close(release) })
		states := map[string]asynq.TaskState{
			"active": asynq.TaskStateActive, "retry": asynq.TaskStateRetry,
			"archived": asynq.TaskStateArchived, "completed": asynq.TaskStateCompleted,
		}
		for id := range states {
			b.add(0, id)
		}
		<-running
		for id, state := range states {
			eventually(t, id+" is "+state.String(), func() bool {
				info, err := b.inspector.GetTaskInfo(queue, id)
				return err == nil && info.State == state
			})
		}
		if err := b.inspector.PauseQueue(queue); err != nil {
			t.Fatal(err)
		}
		b.add(0, "pending")
		b.add(time.Hour, "scheduled")
		for _, id := range []string{"pending", "scheduled", "retry"} {
			states[id] = asynq.TaskStatePending
		}
		ids, got := slices.Sorted(maps.Keys(want)), map[string]asynqdb.Wake{}
		for i, wake := range b.wake(0, ids...) {
			got[ids[i]] = wake
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("wakes (-want +got):\n%s", diff)
		}
		for id, state := range states {
			if info, err := b.inspector.GetTaskInfo(queue, id); err != nil || info.State != state {
				t.Errorf("%s is %+v (%v), want %v", id, info, err, state)
			}
		}
		info, err := b.inspector.GetQueueInfo(queue)
		if err != nil {
			t.Fatal(err)
		}
		if info.Pending != 3 || info.Scheduled != 0 || info.Retry != 0 || info.Latency < 0 || info.Latency > time.Minute {
			t.Errorf("the queue is %+v", info)
		}
	})
}

func TestErrorsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		b := setup(t, server.Client(t))
		server.Wire.Set(network.Refuse)
		ctx := t.Context()
		for name, do := range map[string]func() error{
			"Wake":     func() error { _, err := b.Wake(ctx, queue, []string{"a"}, 0); return err },
			"Archived": func() error { _, err := b.Archived(ctx, queue, time.Time{}); return err },
			"Paused":   func() error { _, err := b.Paused(ctx, []string{queue}); return err },
			"State":    func() error { _, err := b.State(ctx, queue, "a"); return err },
		} {
			if err := do(); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}
