package asynqdb_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/test/memredis"
)

func (b *bundle) state(queue, id string) asynqdb.QueueState {
	b.t.Helper()
	state, err := b.State(b.t.Context(), queue, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return state
}

func TestStateOfAQueueWithoutWorkers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		began := time.Now().Truncate(time.Second)
		b.add(0, "first", "second", "archived")
		if err := b.inspector.ArchiveTask(queue, "archived"); err != nil {
			t.Fatal(err)
		}
		if err := b.inspector.PauseQueue(queue); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]asynqdb.QueueState{
			"first": {Before: 0, Paused: true, Tasks: 2}, "second": {Before: 1, Paused: true, Tasks: 2},
			"none": {Before: -1, Paused: true, Tasks: 2}, "": {Before: -1, Paused: true, Tasks: 2},
		} {
			if diff := cmp.Diff(want, b.state(queue, id)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", id, diff)
			}
		}
		archived, err := b.Archived(t.Context(), queue, time.Time{})
		if err != nil || len(archived) != 1 || archived[0].ID != "archived" {
			t.Fatalf("archived are %v, %v", archived, err)
		}
		for since, n := range map[time.Duration]int{-time.Second: 1, 0: 1, time.Second: 0} {
			if some, failed := b.Archived(t.Context(), queue, archived[0].At.Add(since)); failed != nil || len(some) != n {
				t.Errorf("archived since %v: %v, %v", since, some, failed)
			}
		}
		state := b.state(queue, "archived")
		if state.Before != -1 || !state.Archived.Equal(archived[0].At) || state.Archived.Before(began) ||
			state.Archived.After(time.Now()) {
			t.Errorf("archived: %+v", state)
		}
		if diff := cmp.Diff(asynqdb.QueueState{Before: -1}, b.state("other", "first")); diff != "" {
			t.Errorf("a queue that does not exist (-want +got):\n%s", diff)
		}
		paused, err := b.Paused(t.Context(), []string{"other", queue})
		if diff := cmp.Diff(map[string]bool{queue: true}, paused); diff != "" || err != nil {
			t.Errorf("%v; paused (-want +got):\n%s", err, diff)
		}
	})
}

// asynq shows which worker runs a task in its signs of life, every 5 s.
func TestStateOfAnActiveTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, memredis.Serve(t).Client(t))
		began, running, release := time.Now().Truncate(time.Second), make(chan struct{}), make(chan struct{})
		b.start(func(context.Context, *asynq.Task) error {
			close(running)
			<-release
			return nil
		})
		t.Cleanup(func() { close(release) })
		b.add(0, "active")
		<-running
		var state, other asynqdb.QueueState
		eventually(t, "the server shows its worker", func() bool {
			state, other = b.state(queue, "active"), b.state("other", "active")
			return state.Worker != "" && other.Others == 1
		})
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		if state.Worker != fmt.Sprintf("%s:%d", host, os.Getpid()) || state.Workers != 1 || state.Others != 0 ||
			state.Tasks != 1 || state.Stopping != 0 ||
			state.Before != -1 || state.Paused || state.Started.Before(began) || state.Orphaned(time.Now()) {
			t.Errorf("%+v", state)
		}
		if left := time.Until(state.Lease); left < 0 || left > time.Minute {
			t.Errorf("the lease ends in %v", left)
		}
		if other.Workers != 0 || other.Worker != "" {
			t.Errorf("another queue: %+v", other)
		}
	})
}

func TestOrphaned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		state asynqdb.QueueState
		want  bool
	}{
		"no lease":                     {asynqdb.QueueState{}, false},
		"a lease that ended":           {asynqdb.QueueState{Lease: now.Add(-1), Workers: 1, Worker: "w"}, true},
		"no worker takes from it":      {asynqdb.QueueState{Lease: now.Add(1)}, true},
		"a worker takes from it":       {asynqdb.QueueState{Lease: now.Add(1), Workers: 1}, false},
		"a worker of it stops":         {asynqdb.QueueState{Lease: now.Add(1), Stopping: 1}, false},
		"its worker takes no new task": {asynqdb.QueueState{Lease: now.Add(1), Worker: "w"}, false},
	} {
		if got := c.state.Orphaned(now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
