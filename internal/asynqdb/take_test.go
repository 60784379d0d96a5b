package asynqdb_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/asynqdb"
)

const net = 15 * time.Second

// take takes all tasks that Pending returns.
func (b *bundle) take(most, from int) (ids []string) {
	b.t.Helper()
	_, tasks, err := b.Pending(b.t.Context(), queue, most, from)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range tasks {
		ids = append(ids, p.ID)
		want := []any{"type of " + p.ID, "payload\x00 of " + p.ID, map[string]string{"a": p.ID, "b": ""}}
		if p.Task == nil {
			b.t.Fatalf("the message of %s is unreadable", p.ID)
		}
		if diff := cmp.Diff(want, []any{p.Task.Type(), string(p.Task.Payload()), p.Task.Headers()}); diff != "" {
			b.t.Errorf("task %s (-want +got):\n%s", p.ID, diff)
		}
	}
	before := time.Now()
	if taken, err := b.Take(b.t.Context(), queue, ids, nil, net); err != nil || !slices.Equal(taken, ids) {
		b.t.Fatalf("took %q, %v, want %q", taken, err, ids)
	}
	for _, id := range ids {
		info, err := b.inspector.GetTaskInfo(queue, id)
		if err != nil || info.State != asynq.TaskStateScheduled {
			b.t.Fatalf("%s is %+v, %v", id, info, err)
		}
		if at := info.NextProcessAt; at.Before(before.Add(net-time.Second)) || at.After(time.Now().Add(net+time.Second)) {
			b.t.Errorf("asynq delivers %s at %v", id, at)
		}
	}
	return ids
}

// The scripts read and write asynq's own data. This test compares them with the asynq version in go.mod.
func TestTake(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		b.add(time.Hour, "woken")
		b.add(0, "new0", "new1", "new2", "new3", "new4")
		b.wake(0, "woken")
		if ids := b.take(10, 7); len(ids) > 0 {
			t.Errorf("few tasks are pending, and %q are taken", ids)
		}
		if err := b.inspector.PauseQueue(queue); err != nil {
			t.Fatal(err)
		}
		if ids := b.take(10, 1); len(ids) > 0 {
			t.Errorf("the queue is paused, and %q are taken", ids)
		}
		if err := b.inspector.UnpauseQueue(queue); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"new0", "new1"}, b.take(2, 6)); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
		taken, err := b.Take(t.Context(), queue, []string{"woken", "new0"}, []string{"new3"}, net)
		if err != nil || len(taken) > 0 {
			t.Errorf("took %q, %v: a woken and a scheduled task", taken, err)
		}
		if diff := cmp.Diff([]string{"new2", "new4"}, b.take(10, 1)); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"woken", "new3"}, b.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		b.wake(0, "new0")
		if diff := cmp.Diff([]string{"woken", "new0", "new3"}, b.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
	})
}

// Pending returns the tasks that workers hold in the order of delivery, once. It skips tasks that Take left, and
// woken tasks.
func TestPendingReturnsActiveTasks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		held, release := make(chan string, 10), make(chan struct{}) // tasks that start at the end find room
		b.add(time.Hour, "woken")
		b.wake(0, "woken")
		b.start(func(_ context.Context, task *asynq.Task) error {
			held <- task.Type()
			<-release
			return nil
		})
		t.Cleanup(func() { close(release) })
		<-held
		for _, id := range []string{"held0", "held1", "held2"} { // the server runs four
			b.add(0, id)
			<-held
		}
		b.add(0, "new0", "new1")
		read := func() (ids [2][]string) {
			t.Helper()
			active, pending, err := b.Pending(t.Context(), queue, 10, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, all := range [][]asynqdb.Pending{active, pending} {
				for _, p := range all {
					if p.Task == nil || p.Task.Type() != "type of "+p.ID {
						t.Errorf("task %s is %+v", p.ID, p.Task)
					}
					ids[i] = append(ids[i], p.ID)
				}
			}
			return ids
		}
		if diff := cmp.Diff([2][]string{{"held0", "held1", "held2"}, {"new0", "new1"}}, read()); diff != "" {
			t.Errorf("active and pending (-want +got):\n%s", diff)
		}
		if _, err := b.Take(t.Context(), queue, nil, []string{"held0", "held2", "gone"}, net); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([2][]string{{"held1"}, {"new0", "new1"}}, read()); diff != "" {
			t.Errorf("active and pending, without the tasks that Take left (-want +got):\n%s", diff)
		}
		if n := b.client.Exists(t.Context(), "asynq:{default}:t:gone").Val(); n != 0 {
			t.Error("a task that is gone has a record again")
		}
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		b.add(time.Minute, "delayed", "as before")
		b.add(0, "pending")
		later := time.Now().Add(time.Hour)
		at := map[string]time.Time{"delayed": later, "pending": later, "none": later}
		if gone, err := b.Delay(t.Context(), queue, at); err != nil || !slices.Equal(gone, []string{"none"}) {
			t.Fatalf("%q do not exist, %v", gone, err)
		}
		scheduled, err := b.inspector.ListScheduledTasks(queue)
		if err != nil || len(scheduled) != 2 {
			t.Fatalf("scheduled are %v, %v", scheduled, err)
		}
		for _, info := range scheduled {
			at := info.NextProcessAt
			if delayed := !at.Before(later) && at.Before(later.Add(2*time.Second)); delayed != (info.ID == "delayed") {
				t.Errorf("%s is delivered at %v", info.ID, at)
			}
		}
		if diff := cmp.Diff([]string{"pending"}, b.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
	})
}

// Pending reads few large messages at once.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		large := asynq.NewTask("large", make([]byte, 2<<20))
		for _, id := range []string{"0", "1", "2", "3"} {
			if _, err := b.producer.EnqueueContext(t.Context(), large, asynq.TaskID(id)); err != nil {
				t.Fatal(err)
			}
		}
		_, tasks, err := b.Pending(t.Context(), queue, 4, 1)
		if err != nil || len(tasks) != 2 || tasks[0].ID != "0" || tasks[1].ID != "1" {
			t.Errorf("%d tasks, %v", len(tasks), err)
		}
	})
}

// One process at a time takes a backlog, until few tasks are left or it does not go on.
func TestOneProcessTakesABacklog(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		b.add(0, numbered(8)...)
		other := asynqdb.New(b.client)
		pending := func(db *asynqdb.DB, from int) (n int, elsewhere bool) {
			_, tasks, err := db.Pending(t.Context(), queue, 10, from)
			if elsewhere = errors.Is(err, asynqdb.ErrTakenElsewhere); err != nil && !elsewhere {
				t.Fatal(err)
			}
			return len(tasks), elsewhere
		}
		for _, db := range []*asynqdb.DB{b.DB, b.DB} {
			if n, elsewhere := pending(db, 1); n != 8 || elsewhere {
				t.Errorf("%d tasks, elsewhere %v", n, elsewhere)
			}
		}
		if n, elsewhere := pending(other, 1); n != 0 || !elsewhere {
			t.Errorf("another process reads %d tasks, elsewhere %v", n, elsewhere)
		}
		if n, elsewhere := pending(b.DB, 9); n != 0 || elsewhere {
			t.Errorf("%d tasks of few, elsewhere %v", n, elsewhere)
		}
		if n, elsewhere := pending(other, 1); n != 8 || elsewhere {
			t.Errorf("another process reads %d tasks when the first one has ended, elsewhere %v", n, elsewhere)
		}
		eventually(t, "the other process does not go on", func() bool {
			_, elsewhere := pending(b.DB, 1)
			return !elsewhere
		})
	})
}
