package asynqdb_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Delete finds tasks in all places where they wait, in any order, and leaves all others where they are.
func TestDelete(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		b.add(0, "before0", "a", "b", "between", "c", "after")
		b.add(time.Hour, "later", "other")
		b.add(0, "archived")
		if err := b.inspector.ArchiveTask(queue, "archived"); err != nil {
			t.Fatal(err)
		}
		got, err := b.Delete(t.Context(), queue, []string{"c", "b", "later", "archived", "a", "none", "b"})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c", "later"} {
			if task := got[id]; task == nil || string(task.Payload()) != "payload\x00 of "+id {
				t.Errorf("%s: %+v", id, task)
			}
			if _, gone := b.inspector.GetTaskInfo(queue, id); gone == nil {
				t.Errorf("%s still exists", id)
			}
		}
		if len(got) != 4 {
			t.Errorf("%d tasks were deleted", len(got))
		}
		if diff := cmp.Diff([]string{"before0", "between", "after"}, b.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		info, err := b.inspector.GetQueueInfo(queue)
		if err != nil || info.Scheduled != 1 || info.Archived != 1 || info.Size != 5 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// A deleted task gives asynq's unique key back.
func TestDeleteUnique(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		for range 2 {
			task := asynq.NewTask("once", nil)
			if _, err := b.producer.Enqueue(task, asynq.TaskID("once"), asynq.Unique(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if got, err := b.Delete(t.Context(), queue, []string{"once"}); err != nil || got["once"] == nil {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	})
}

// scripts counts the scripts that a client sends.
type scripts struct{ n int }

func (s *scripts) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s *scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if c.Name() == "evalsha" {
			s.n++
		}
		return next(ctx, c)
	}
}

// Many tasks behind a backlog of others are deleted 500 at a time. One call for each would read the list as often.
func TestDeleteMany(t *testing.T) {
	t.Parallel()
	b := onRedis(t)
	var others, wanted []string
	for i := range 1200 {
		others, wanted = append(others, "other"+strconv.Itoa(i)), append(wanted, strconv.Itoa(i))
	}
	b.add(0, others[:600]...)
	b.add(0, wanted...)
	b.add(0, others[600:]...)
	slices.Reverse(wanted)
	counted := &scripts{}
	b.client.AddHook(counted)
	got, err := b.Delete(t.Context(), queue, wanted)
	if err != nil || len(got) != len(wanted) || counted.n > 4 { // the first one is sent twice, to load it
		t.Errorf("%d tasks with %d scripts, %v", len(got), counted.n, err)
	}
	if n := b.client.LLen(t.Context(), "asynq:{default}:pending").Val(); n != int64(len(others)) {
		t.Errorf("%d are left", n)
	}
}
