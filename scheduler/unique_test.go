package scheduler_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// enqueueAtOnce lets 64 processes enqueue a task with the key, and returns the IDs of the enqueued tasks. The other
// processes get the ID of the holder of the key.
func enqueueAtOnce(t *testing.T, s *scheduler.Scheduler, holder string) (enqueued []string) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			info, err := s.Enqueue(t.Context(), openai("doc"), tasks.Options{Unique: "doc"})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				enqueued = append(enqueued, info.ID)
				return
			}
			d, ok := errors.AsType[*scheduler.DuplicateError](err)
			if !ok || holder != "" && d.ID != holder {
				t.Errorf("err = %v, want a DuplicateError of %q", err, holder)
			}
		})
	}
	all.Wait()
	return enqueued
}

// A unique task waits for its limit for ten minutes, runs, is lost with its worker, and runs again. Meanwhile 64
// processes try to enqueue another one each minute, and fail. After its end one of them succeeds.
func TestAUniqueTaskThatWaitsIsNeverThereTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		l := limiter(t, store(), reservations.Limit{Name: "openai", Meters: []reservations.Meter{{
			Name: "requests", Rate: 1, Period: 10 * time.Minute, Capacity: 1,
		}}})
		s := newScheduler(t, client, l, exact())
		if _, err := s.Enqueue(t.Context(), openai("before")); err != nil {
			t.Fatal(err)
		}
		first := enqueueAtOnce(t, s, "")
		if len(first) != 1 {
			t.Fatalf("%d were enqueued at once", len(first))
		}
		id, ahead := first[0], plan(t, l)
		if info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo("default", id); err != nil ||
			info.NextProcessAt.Before(time.Now().Add(10*time.Minute)) {
			t.Fatalf("the task waits for less than ten minutes: %+v, %v", info, err)
		}
		again := func(when string) {
			t.Helper()
			if more := enqueueAtOnce(t, s, id); len(more) > 0 {
				t.Fatalf("%s: enqueued once more: %v", when, more)
			}
		}
		for minute := range 10 {
			<-time.After(time.Minute)
			again(fmt.Sprint("minute ", minute+1))
		}
		if got := plan(t, l); got > 1e-9 { // duplicates have released their reservations
			t.Errorf("%v tokens are promised ahead after ten minutes, %v before", got, ahead)
		}
		// A worker takes the task, dies with it, and asynq's recoverer puts it back.
		key := "asynq:{default}:t:" + id
		for _, state := range []string{"pending", "active", "retry", "active"} {
			client.HSet(t.Context(), key, "state", state)
			again(state)
		}
		client.HSet(t.Context(), key, "state", "archived")
		last := enqueueAtOnce(t, s, "")
		if len(last) != 1 || last[0] == id {
			t.Errorf("after its end %v were enqueued, want one more than %s", last, id)
		}
		if client.Exists(t.Context(), key).Val() != 1 {
			t.Error("the archived task is gone")
		}
	})
}

// Of many tasks only the duplicates fail. Their types return the keys.
func TestEnqueueManyGoesOnAfterDuplicates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, store := range map[string]reservations.Store{"reserved": store(), "not reserved": reservations.NoStore()} {
			s := newScheduler(t, inMemory(t), limiter(t, store, perSecond(10, 1)), exact())
			var args []tasks.Args
			for i := range 50 {
				c := openai("c")
				c.Fixed.Unique = strconv.Itoa(i % 40)
				args = append(args, c)
			}
			infos, err := s.EnqueueMany(t.Context(), args)
			n := 0
			for _, info := range infos {
				if info != nil {
					n++
				}
			}
			if _, ok := errors.AsType[*scheduler.DuplicateError](err); n != 40 || !ok {
				t.Errorf("%s: %d tasks, want 40, %v", name, n, err)
			}
			infos, err = s.EnqueueMany(t.Context(), args, tasks.Options{SkipExisting: true})
			if err != nil || infos[0] != nil {
				t.Errorf("%s: skipped: %v, %v", name, infos[0], err)
			}
		}
		s := newScheduler(t, inMemory(t), nil, exact())
		_, err := s.EnqueueMany(t.Context(), []tasks.Args{openai("a"), openai("b")}, tasks.Options{Unique: "k"})
		if !errors.Is(err, tasks.ErrInvalidOptions) {
			t.Errorf("one key for two: %v", err)
		}
	})
}

// typed is a task of any type.
type typed string

func (t typed) TaskType() string { return string(t) }

// No key of a type is the key of another type.
func TestUniqueKeysOfTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := scheduler.New(inMemory(t), nil, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ kind, key string }{
			{"web", "request:x"},
			{"web:request", "x"},
			{"web%3Arequest", "x"},
			{"web:", "request:x"},
			{"web", ":request:x"},
			{"web:request:x", "y"},
			{"web:request", "x:y"},
			{"web", "request:x:y"},
			{"web request", "x"},
			{"web+request", "x"},
		} {
			for _, twice := range []bool{false, true} {
				_, err := s.Enqueue(t.Context(), typed(c.kind), tasks.Options{Unique: c.key})
				if _, ok := errors.AsType[*scheduler.DuplicateError](err); ok != twice || (err != nil) != twice {
					t.Errorf("type %q, key %q: %v", c.kind, c.key, err)
				}
			}
		}
	})
}
