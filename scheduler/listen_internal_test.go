package scheduler

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// A process without a waker puts a task in front: the one on duty hears of it, long before it would look.
func TestTheWakerOnDutyHearsOfTasksInFront(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		began := time.Now()
		s := &Scheduler{lines: l, config: Config{}.withDefaults()}
		s.waker = newWaker(l, asynq.NewInspectorFromRedisClient(l.client), Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults())
		s.share()
		looks := make(chan look, 100)
		s.waker.observe = func(l look) { looks <- l }
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Stop(context.WithoutCancel(t.Context())) })
		eventually(t, "the waker listens", func() bool {
			heard, err := l.client.PubSubNumSub(t.Context(), root+"sooner").Result()
			return err == nil && heard[root+"sooner"] > 0 && len(looks) > 0
		})
		mustRecord(t, l, answer(1, 0), dueIn("a", 200*time.Millisecond))
		for {
			if got := <-looks; len(got.tasks) > 0 {
				break
			}
		}
		if took := time.Since(began); took > restMost/2+200*time.Millisecond {
			t.Errorf("woken after %v: nobody was told", took)
		}
	})
}
