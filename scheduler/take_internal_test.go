package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
)

// The script reads and writes what asynq itself keeps, and the message is asynq's own: here is what is taken for granted, as the version in go.mod has it.
func TestTake(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		producer, inspector := asynq.NewClientFromRedisClient(l.client), asynq.NewInspectorFromRedisClient(l.client)
		add := func(id string, opts ...asynq.Option) {
			t.Helper()
			task := asynq.NewTaskWithHeaders("type of "+id, []byte("payload\x00 of "+id), map[string]string{"a": id, "b": ""})
			opts = append(opts, asynq.TaskID(id), asynq.Unique(time.Hour), asynq.Timeout(time.Minute), asynq.Retention(time.Hour))
			if _, err := producer.EnqueueContext(t.Context(), task, opts...); err != nil {
				t.Fatal(err)
			}
		}
		add("woken", asynq.ProcessIn(time.Hour))
		for i := range 5 {
			add(fmt.Sprintf("new%d", i))
		}
		if told, err := newRouser(l.client, nil).rouse(t.Context(), "default", ordinary("woken")); err != nil || told[0] != "woken" {
			t.Fatalf("%q, %v", told, err)
		}
		taker := newTaker(l.client)
		take := func(most, from int) (ids []string) {
			t.Helper()
			all, err := taker.peek(t.Context(), "default", most, from)
			if err != nil {
				t.Fatal(err)
			}
			wanted := make([]string, len(all))
			for i, one := range all {
				wanted[i] = one.id
			}
			got, err := taker.take(t.Context(), "default", wanted, nil, sortNet)
			if err != nil || !slices.Equal(got, wanted) {
				t.Fatalf("%q, %v", got, err)
			}
			for _, one := range all {
				ids = append(ids, one.id)
				if one.task == nil {
					t.Fatalf("the message of %s can't be read", one.id)
				}
				want := []any{"type of " + one.id, "payload\x00 of " + one.id, map[string]string{"a": one.id, "b": ""}}
				if diff := cmp.Diff(want, []any{one.task.Type(), string(one.task.Payload()), one.task.Headers()}); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				info, err := inspector.GetTaskInfo("default", one.id)
				if err != nil || info.State != asynq.TaskStateScheduled {
					t.Fatalf("%s is %+v, %v", one.id, info, err)
				}
				if in := time.Until(info.NextProcessAt); in < sortNet-5*time.Second || in > sortNet+time.Second {
					t.Errorf("asynq delivers %s in %v", one.id, in)
				}
			}
			return ids
		}
		if ids := take(10, 7); len(ids) > 0 {
			t.Errorf("few are pending, and %q are taken", ids)
		}
		if err := inspector.PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		if ids := take(10, 1); len(ids) > 0 {
			t.Errorf("the queue is paused, and %q are taken", ids)
		}
		if err := inspector.UnpauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"new0", "new1"}, take(2, 6)); diff != "" { // the woken one is passed
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"new2", "new3", "new4"}, take(10, 1)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		pending, err := inspector.ListPendingTasks("default")
		if err != nil || len(pending) != 1 || pending[0].ID != "woken" {
			t.Errorf("pending are %v, %v", pending, err)
		}
		later := time.Now().Add(time.Hour)
		gone, err := taker.delay(t.Context(), "default", map[string]time.Time{"new0": later, "woken": later, "none": later})
		if err != nil || !slices.Equal(gone, []string{"none"}) {
			t.Fatalf("%q, %v", gone, err)
		}
		scheduled, err := inspector.ListScheduledTasks("default")
		if err != nil || len(scheduled) != 5 {
			t.Fatalf("scheduled are %v, %v", scheduled, err)
		}
		for _, info := range scheduled {
			if delayed := time.Until(info.NextProcessAt) > time.Minute; delayed != (info.ID == "new0") {
				t.Errorf("%s is delivered at %v", info.ID, info.NextProcessAt)
			}
		}
	})
}

// Of large messages few are read at once.
func TestPeekAtLargeTasks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		producer := asynq.NewClientFromRedisClient(l.client)
		for i := range 6 {
			if _, err := producer.EnqueueContext(t.Context(), asynq.NewTask("large", make([]byte, peekBytes/2)), asynq.TaskID(strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := newTaker(l.client).peek(t.Context(), "default", 6, 1); err != nil || len(all) != 2 || all[0].id != "0" || all[1].id != "1" {
			t.Errorf("%d tasks, %v", len(all), err)
		}
	})
}

func TestDecodeMessage(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"cut in a tag": "\x80", "cut in a text": "\x0a\x05abc", "cut in a number": "\x28\x80", "cut in a header": "\x7a\x02\x0a\x05", "no such kind": "\x0f",
	} {
		if task, err := decodeMessage([]byte(message)); err == nil {
			t.Errorf("%s: %+v", name, task)
		}
	}
	task, err := decodeMessage([]byte("\x28\x07\x0a\x03abc\x12\x01x\x7a\x06\x0a\x01k\x12\x01v"))
	if err != nil || task.Type() != "abc" || string(task.Payload()) != "x" || task.Headers()["k"] != "v" {
		t.Errorf("%+v, %v", task, err)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add([]byte("\x28\x07\x0a\x03abc\x12\x01x\x7a\x06\x0a\x01k\x12\x01v"))
	f.Add([]byte("\x7a\x02\x0a\x05"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if task, err := decodeMessage(message); err == nil && len(task.Type())+len(task.Payload()) > len(message) {
			t.Errorf("more than the message has: %+v", task)
		}
	})
}
