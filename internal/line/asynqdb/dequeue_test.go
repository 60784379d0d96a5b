package asynqdb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/asynqdb"
)

// dequeue asks for the next task as asynq does, and returns its ID; an empty string where there is none.
func (b *bundle) dequeue(s *asynqdb.Server) string {
	b.t.Helper()
	prefix := "asynq:{" + queue + "}:"
	keys := []string{prefix + "pending", prefix + "paused", prefix + "active", prefix + "lease"}
	message, err := s.EvalSha(b.t.Context(), "asynq's", keys, time.Now().Add(30*time.Second).Unix(), prefix+"t:").Text()
	if errors.Is(err, redis.Nil) {
		return ""
	}
	task, undecoded := asynqdb.DecodeMessage([]byte(message))
	if err = errors.Join(err, undecoded); err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimPrefix(task.Type(), "type of ")
}

// active returns the IDs of asynq's active tasks in the order of delivery.
func (b *bundle) active() []string {
	b.t.Helper()
	ids, err := b.client.LRange(b.t.Context(), "asynq:{"+queue+"}:active", 0, -1).Result()
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Reverse(ids)
	return ids
}

func (b *bundle) want(what string, got []string, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("t%02d", i))
	}
	return ids
}

// A server with free slots takes several tasks of a long list together. It puts tasks that asynq has not asked for
// back to the head of the list.
func TestServerTakesSeveralTasks(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, b *bundle) {
		t.Helper()
		ids := numbered(48)
		b.add(0, ids...)
		stopping, free := make(chan struct{}), 8
		s := asynqdb.ForServer(b.client, asynqdb.ServerConfig{Stopping: stopping, Free: func() int { return free }})
		b.want("delivered", []string{b.dequeue(s)}, ids[0])
		b.want("taken", b.active(), ids[:4]...)
		b.want("delivered", []string{b.dequeue(s), b.dequeue(s), b.dequeue(s)}, ids[1:4]...)

		b.want("delivered", []string{b.dequeue(s)}, ids[4])
		lease := redis.Z{Score: 1, Member: ids[5]} // another server has this task
		if err := b.client.ZAdd(t.Context(), "asynq:{"+queue+"}:lease", lease).Err(); err != nil {
			t.Fatal(err)
		}
		s.PutBack()
		b.want("still taken", b.active(), ids[:6]...)
		b.want("pending", b.pending(), ids[6:]...)
		b.want("delivered", []string{b.dequeue(s)}, ids[6])
		eventually(t, "tasks that asynq does not ask for are pending again", func() bool { return len(b.active()) == 7 })
		b.want("pending", b.pending(), ids[7:]...)

		free = 1
		b.want("delivered", []string{b.dequeue(s)}, ids[7])
		b.want("taken", b.active(), ids[:8]...)
		free = 100
		close(stopping)
		b.want("delivered", []string{b.dequeue(s)}, ids[8])
		b.want("taken", b.active(), ids[:9]...)
	})
}

// Servers share a short list.
func TestServerLeavesOthersTheirPart(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		ids := numbered(15)
		b.add(0, ids...)
		s := asynqdb.ForServer(b.client, asynqdb.ServerConfig{Free: func() int { return 100 }})
		for i := range ids {
			b.want("delivered", []string{b.dequeue(s)}, ids[i])
			b.want("taken", b.active(), ids[:i+1]...)
		}
		b.want("delivered", []string{b.dequeue(s)}, "")
	})
}
