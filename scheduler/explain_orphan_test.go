package scheduler_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// A task of a killed worker does not run. asynq puts it back when a worker of its queue can do so.
func TestExplainWhatWasLeftBehind(t *testing.T) {
	t.Parallel()
	const gone = "^Task left was running on a worker that is gone"
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, nil, exact())
		if _, err := s.Enqueue(t.Context(), openai("left"), tasks.Options{ID: "left"}); err != nil {
			t.Fatal(err)
		}
		explain := func(lease time.Duration, reason scheduler.Reason, want string) {
			t.Helper()
			untilExplained(t, want, func() (string, bool) { // again if the machine stalls
				end := time.Now().Add(lease).Truncate(time.Second)
				take(t, client, "left", end)
				e, err := s.Explain(t.Context(), "default", "left")
				return fmt.Sprintf("lease %v: %q, %+v, %v", lease, e.Summary(), e, err),
					err == nil && e.Reason == reason && regexp.MustCompile(want).MatchString(e.Summary()) &&
						(reason != scheduler.ReasonOrphaned || e.Until.Equal(end.Add(30*time.Second)))
			})
		}
		explain(20*time.Second, scheduler.ReasonOrphaned,
			gone+`, and no worker takes from queue default: start one, and asynq puts the task back in \S+s at the earliest\.$`)
		explain(-time.Hour, scheduler.ReasonOrphaned,
			gone+`, and no worker takes from queue default: start one, and asynq puts the task back at once\.$`)
		serveQueue(t, client, "other")
		explain(-time.Hour, scheduler.ReasonOrphaned, gone+", and no worker takes from queue default, only from others: "+
			"list it under `queues` in the workers' headway.yaml, and restart them, and asynq.*")
		serveQueue(t, client, "default")
		explain(time.Minute, scheduler.ReasonRunning, `^Task left is running\.$`)
		explain(-10*time.Second, scheduler.ReasonOrphaned,
			gone+`: asynq puts it back in (19|2\d)\S*s to 1m(19|2\d)\S*s, and another worker runs it again\.$`)
		explain(-time.Hour, scheduler.ReasonOrphaned,
			gone+`: asynq puts it back within a minute, and another worker runs it again\.$`)
	})
}

// A running worker is not enough: it must serve the queue of the task.
func TestExplainAQueueThatOthersDoNotServe(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, nil, exact())
		if _, err := s.Enqueue(t.Context(), openai("foo"), tasks.Options{ID: "foo", Queue: "foo"}); err != nil {
			t.Fatal(err)
		}
		serveQueue(t, client, "other")
		const want = "Task foo is ready, but no worker takes from queue foo, only from others: list it under `queues` in " +
			"the workers' headway.yaml, and restart them."
		untilExplained(t, want, func() (string, bool) {
			e, err := s.Explain(t.Context(), "foo", "foo")
			return fmt.Sprintf("%q, %+v, %v", e.Summary(), e, err),
				err == nil && e.Workers == 0 && e.Elsewhere == 1 && e.Summary() == want
		})
	})
}

// untilExplained polls for the wanted explanation: asynq's signs of life end while the machine stalls.
func untilExplained(t *testing.T, want string, explain func() (got string, ok bool)) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	until(t, want, func() (ok bool) {
		last, ok = explain()
		return ok
	})
}

// take makes the task active on a killed worker.
func take(t *testing.T, client redis.UniversalClient, id string, lease time.Time) {
	t.Helper()
	client.LRem(t.Context(), "asynq:{default}:pending", 0, id)
	client.LRem(t.Context(), "asynq:{default}:active", 0, id)
	client.LPush(t.Context(), "asynq:{default}:active", id)
	client.HSet(t.Context(), "asynq:{default}:t:"+id, "state", "active")
	if err := client.ZAdd(t.Context(), "asynq:{default}:lease", redis.Z{
		Score: float64(lease.Unix()), Member: id,
	}).Err(); err != nil {
		t.Fatal(err)
	}
}

// serveQueue starts a worker for a queue, and waits for its sign of life.
func serveQueue(t *testing.T, client redis.UniversalClient, queue string) {
	t.Helper()
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: 20 * time.Millisecond,
	})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	inspector := asynq.NewInspectorFromRedisClient(client)
	tick := time.NewTicker(5 * time.Millisecond) //gate:ok called in bubbles, and by tests of the night
	defer tick.Stop()
	for deadline := time.After(patience); ; { //gate:ok called in bubbles, and by tests of the night
		servers, err := inspector.Servers()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(servers, func(s *asynq.ServerInfo) bool { return s.Queues[queue] > 0 }) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no worker takes from %s", queue)
		}
	}
}
