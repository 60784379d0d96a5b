package scheduler_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// The expected starts of each bucket are in order, and asynq delivers each task later, at the time of its retry set.
func TestReservedTasksAreExpectedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testReservedTasksAreExpectedInOrder)
}

func testReservedTasksAreExpectedInOrder(t *testing.T) {
	client := inMemory(t)
	other := perSecond(1, 1)
	other.Name = "other"
	s := newScheduler(t, client, limiter(t, store(), perSecond(10, 1), other), exact())
	var args []tasks.Args
	for i := range 300 {
		c := openai(strconv.Itoa(i))
		c.Limit = []string{"openai", "other", ""}[i%3]
		args = append(args, c)
	}
	before := time.Now()
	infos, err := s.EnqueueMany(t.Context(), args, tasks.Options{Queue: "batch"})
	if err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(client)
	for limit := range 2 {
		last := time.Time{}
		for i := limit; i < len(infos); i += 3 {
			due := infos[i].NextProcessAt
			if !due.After(last) {
				t.Fatalf("task %d: expected at %v, not after the one before it, %v", i, due, last)
			}
			last = due
			kept, err := inspector.GetTaskInfo("batch", infos[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			if net := kept.NextProcessAt.Sub(due); net < 118*time.Second || net > 142*time.Second ||
				kept.State != asynq.TaskStateScheduled {
				t.Fatalf("task %d: asynq delivers it at %v, %v after its time", i, kept.State, net)
			}
		}
		want := before.Add([]time.Duration{9900 * time.Millisecond, 99 * time.Second}[limit])
		if late := last.Sub(want); late.Abs() > time.Millisecond {
			t.Errorf("limit %d: the last is expected at %v, want %v", limit, last, want)
		}
	}
	for i := 2; i < len(infos); i += 3 {
		if infos[i].State != asynq.TaskStatePending {
			t.Fatalf("task %d has no limit and is %v", i, infos[i].State)
		}
	}
}

func TestReservationsAreReleasedIfATaskExists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, store(), perSecond(1, 1))
		s := newScheduler(t, inMemory(t), l, exact())
		if _, err := s.Enqueue(t.Context(), openai("a"), tasks.Options{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			_, err := s.Enqueue(t.Context(), openai("a"), tasks.Options{ID: "a"})
			if !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Fatalf("err = %v, want ErrTaskIDConflict", err)
			}
		}
		skipped, err := s.Enqueue(t.Context(), openai("a"), tasks.Options{ID: "a", SkipExisting: true})
		if err != nil || skipped != nil {
			t.Fatalf("info = %v, %v, want none and no error", skipped, err)
		}
		if ahead := plan(t, l); ahead > 0 {
			t.Errorf("%v tokens are promised ahead", ahead)
		}
		turn, err := inside.Of(s).Arrive(t.Context(), named("a"), []reservations.Charge{requests(1)})
		if err != nil || turn.State != waitlist.StateWaiting || turn.Holds(requests(1)) != bucket.StateReserved {
			t.Errorf("the first task: %+v, %v", turn, err)
		}
	})
}

// Tasks have their places, and nothing is reserved, where the store is down and where there is none.
func TestEnqueueWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]reservations.Store{"down": down{}, "none": reservations.NoStore()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScheduler(t, inMemory(t), limiter(t, store, perSecond(1, 1)), exact())
				infos, err := s.EnqueueMany(t.Context(), []tasks.Args{openai("a"), openai("b")})
				if err != nil {
					t.Fatal(err)
				}
				for i, info := range infos {
					e, err := s.Explain(t.Context(), info.Queue, info.ID)
					if err != nil || e.Waits == nil || e.Waits.Position != i+1 || e.Waits.Reserved {
						t.Errorf("task %d: %+v, %v", i, e, err)
					}
				}
			})
		})
	}
}
