package asynqdb_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/test/memredis"
)

// guarded is a client of asynq with guards, and its Redis.
type guarded struct {
	t      *testing.T
	client *asynq.Client
	redis  *redis.Client
}

// onBothGuarded runs a test in a bubble and on a real Redis, where scripts behave differently.
func onBothGuarded(t *testing.T, test func(t *testing.T, g guarded)) {
	t.Helper()
	onBoth(t, func(t *testing.T, b *bundle) {
		t.Helper()
		test(t, guarded{t: t, redis: b.client, client: asynq.NewClientFromRedisClient(asynqdb.ForClient(b.client))})
	})
}

func (g guarded) enqueue(guard asynqdb.Guard, more ...asynq.Option) (holder string, err error) {
	g.t.Helper()
	guard.Queue = "default"
	options := append([]asynq.Option{asynq.TaskID(guard.ID)}, more...)
	_, err = g.client.EnqueueContext(asynqdb.WithGuard(g.t.Context(), &guard), asynq.NewTask("call", nil), options...)
	return guard.Holder, err
}

func (g guarded) state(id, state string) {
	g.t.Helper()
	if err := g.redis.HSet(g.t.Context(), "asynq:{default}:t:"+id, "state", state).Err(); err != nil {
		g.t.Fatal(err)
	}
}

// A key is taken while its task waits or runs, in any of asynq's sets, and free after the end of the task.
func TestAUniqueKeyIsTakenAsLongAsItsTaskLives(t *testing.T) {
	t.Parallel()
	onBothGuarded(t, func(t *testing.T, g guarded) {
		t.Helper()
		for i, state := range []string{
			"pending", "active", "scheduled", "retry", "aggregating", "completed", "archived", "",
		} {
			key, id := fmt.Sprint("key", i), fmt.Sprint("task", i)
			if _, err := g.enqueue(asynqdb.Guard{ID: id, Unique: key}, asynq.ProcessIn(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if g.state(id, state); state == "" {
				g.redis.Del(t.Context(), "asynq:{default}:t:"+id)
			}
			holder, err := g.enqueue(asynqdb.Guard{ID: id + "-again", Unique: key})
			if lives := i < 5; lives != errors.Is(err, asynq.ErrTaskIDConflict) || lives != (holder == id) || !lives &&
				err != nil {
				t.Errorf("%q: holder %q, %v", state, holder, err)
			}
		}
		if _, err := g.enqueue(asynqdb.Guard{ID: "other", Unique: "other"}); err != nil {
			t.Errorf("another key: %v", err)
		}
	})
}

// If 64 processes enqueue a task with one key at the same time, one succeeds.
func TestOneOfManyGetsAUniqueKey(t *testing.T) {
	t.Parallel()
	onBothGuarded(t, func(t *testing.T, g guarded) {
		t.Helper()
		for round := range 5 {
			var enqueued atomic.Int64
			var all sync.WaitGroup
			for i := range 64 {
				all.Go(func() {
					_, err := g.enqueue(asynqdb.Guard{ID: fmt.Sprint(round, "-", i), Unique: strconv.Itoa(round)})
					if err == nil {
						enqueued.Add(1)
					}
				})
			}
			if all.Wait(); enqueued.Load() != 1 {
				t.Errorf("%d tasks have the key", enqueued.Load())
			}
		}
		if n := g.redis.LLen(t.Context(), "asynq:{default}:pending").Val(); n != 5 {
			t.Errorf("%d tasks, want 5", n)
		}
	})
}

// The keys of ended tasks are deleted.
func TestUniqueKeysOfEndedTasksAreForgotten(t *testing.T) {
	t.Parallel()
	onBothGuarded(t, func(t *testing.T, g guarded) {
		t.Helper()
		for i := range 300 {
			id := strconv.Itoa(i)
			if _, err := g.enqueue(asynqdb.Guard{ID: id, Unique: id}); err != nil {
				t.Fatal(err)
			}
			if i >= 10 { // the first ten live on
				g.state(id, "completed")
			}
		}
		n := g.redis.HLen(t.Context(), "headway:unique:{default}").Val()
		if n < 10 || n > 100 {
			t.Errorf("%d keys are kept of 10 tasks", n)
		}
		if holder, err := g.enqueue(asynqdb.Guard{ID: "again", Unique: "3"}); err == nil || holder != "3" {
			t.Errorf("a task that lives has lost its key: %q, %v", holder, err)
		}
	})
}

// A tick that is no moment of the past does not end its series.
func TestMalformedTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, now := memredis.Serve(t).Client(t), time.Now()
		db := asynqdb.New(client)
		hour := strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10) + " @daily"
		for text, want := range map[string]time.Time{
			"x": now, "": now, "-5 @daily": now, "99999999999999999 @daily": now, "9223372036854775807 @daily": now,
			strings.Repeat("9", 400): now, "1e30 @daily": now, hour: now.Add(time.Hour),
		} {
			client.HSet(t.Context(), "headway:recurring:{default}", "nightly", text)
			last, clock, err := db.LastTick(t.Context(), "default", "nightly", "@daily")
			if err != nil || last.MS != want.UnixMilli() || !clock.Equal(now) {
				t.Errorf("%.40q: %+v at %v, %v; want %v", text, last, clock, err, want)
			}
		}
	})
}

// A tick is enqueued once, even if its task ended long ago, and an earlier tick never after it.
func TestATickIsEnqueuedOnce(t *testing.T) {
	t.Parallel()
	onBothGuarded(t, func(t *testing.T, g guarded) {
		t.Helper()
		tick := func(id string, ms int64) error {
			_, err := g.enqueue(asynqdb.Guard{ID: id, Series: "nightly", Tick: asynqdb.Tick{MS: ms, Schedule: "@daily at 3"}})
			return err
		}
		db := asynqdb.New(g.redis)
		first, now, err := db.LastTick(t.Context(), "default", "nightly", "@daily at 3")
		if err != nil || first.MS != now.UnixMilli() || first.Schedule != "@daily at 3" {
			t.Fatalf("a new series begins at %+v, %v, %v", first, now, err)
		}
		for i := range int64(3) {
			if err := tick(fmt.Sprint("tick", i), first.MS+1000*i+1000); err != nil {
				t.Fatal(err)
			}
			g.redis.Del(t.Context(), fmt.Sprint("asynq:{default}:t:tick", i)) // the task is done at once
			for j := range i + 1 {
				if err := tick(fmt.Sprint("tick", j), first.MS+1000*j+1000); !errors.Is(err, asynq.ErrTaskIDConflict) {
					t.Errorf("tick %d after tick %d: %v", j, i, err)
				}
			}
		}
		if err := db.SkipTick(t.Context(), "default", "nightly", asynqdb.Tick{MS: first.MS + 5000}); err != nil {
			t.Fatal(err)
		}
		if err := tick("skipped", first.MS+5000); !errors.Is(err, asynq.ErrTaskIDConflict) {
			t.Errorf("a skipped tick: %v", err)
		}
		if last, _, err := db.LastTick(t.Context(), "default", "nightly", "x"); err != nil || last.MS != first.MS+5000 {
			t.Errorf("last %+v, %v", last, err)
		}
	})
}
