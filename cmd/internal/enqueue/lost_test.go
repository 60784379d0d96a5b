package enqueue

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/batchref"
)

// leftBehind leaves a task of a batch like a killed worker does, with a lease that ends after that time.
func (w *world) leftBehind(t *testing.T, id string, line int, lease time.Duration) {
	t.Helper()
	client := w.redis.Client
	task := batchref.Ref{Batch: id, Line: line}.TaskID()
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("gone", nil),
		asynq.TaskID(task), asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	const root = "asynq:{default}:"
	pipe := client.TxPipeline()
	pipe.ZRem(t.Context(), root+"scheduled", task) // no worker takes it from there meanwhile
	pipe.LPush(t.Context(), root+"active", task)
	pipe.HSet(t.Context(), root+"t:"+task, "state", "active")
	pipe.ZAdd(t.Context(), root+"lease", redis.Z{Score: float64(time.Now().Add(lease).Unix()), Member: task})
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// If only requests of killed workers wait, the estimated end is the end of their leases.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ago := make([]time.Duration, 98)
		for i := range ago {
			ago[i] = 6*time.Second + time.Duration(len(ago)-i)*100*time.Millisecond
		}
		id := w.opened(t, 100, ago...)
		w.leftBehind(t, id, 99, 12*time.Second)
		w.work(t, nil)
		if c := w.call(t, "status", id); c.code != cli.ExitOK || strings.Contains(c.out, "gone") ||
			!regexp.MustCompile(`about \d+s left`).MatchString(c.out) {
			t.Errorf("one of two is lost: exit %d: %s%s", c.code, c.out, c.err)
		}
		w.leftBehind(t, id, 100, 12*time.Second)
		c := w.call(t, "status", id)
		want := regexp.MustCompile(
			`2 waiting; .*nothing runs: 2 requests were on workers that are gone; asynq puts them back in \d+s to ` +
				`1m\d+s\n`)
		if c.code != cli.ExitOK || !want.MatchString(c.out) {
			t.Errorf("both are lost: exit %d: %s%s", c.code, c.out, c.err)
		}
		var f figures
		c = w.call(t, "status", id, "--json")
		if err := json.Unmarshal([]byte(c.out), &f); err != nil || f.Lost != 2 || f.LeftBy != byLease ||
			*f.Left < 40 || *f.Left > 42 {
			t.Errorf("both are lost: %v: %s%s", err, c.out, c.err)
		}
		if _, text := f.end(); text != "worker gone" {
			t.Errorf("in short: %s", text)
		}
	})
}

// A worker that has just taken a task has not shown it in its sign of life, but the lease is new.
func TestRequestsJustTakenAreNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opened(t, 2, 20*time.Second)
		w.leftBehind(t, id, 2, 29*time.Second)
		w.work(t, nil)
		w.lease(t, id, 2, 29*time.Second)
		if c := w.call(t, "status", id); c.code != cli.ExitOK || strings.Contains(c.out, "gone") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// lease sets the end of the lease of a task of a batch.
func (w *world) lease(t *testing.T, id string, line int, lease time.Duration) {
	t.Helper()
	client := w.redis.Client
	end := redis.Z{
		Score:  float64(time.Now().Add(lease).Unix()),
		Member: batchref.Ref{Batch: id, Line: line}.TaskID(),
	}
	if err := client.ZAdd(t.Context(), "asynq:{default}:lease", end).Err(); err != nil {
		t.Fatal(err)
	}
}

// A command that waits for a batch looks for lost requests if no request has ended for a while. It does so only if a
// worker serves the queue.
func TestWatchAsksForLostRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opened(t, 2)
		for line := range 2 {
			w.leftBehind(t, id, line+1, 12*time.Second)
		}
		c, err := config.Load(w.config)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openBatches(w.context(t), cli.Environment{Getenv: w.getenv, Err: t.Output()}, c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		stop := w.work(t, nil)
		b, err := s.find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		looks, now, waiting := s.watch(b), time.Now(), &figures{Waiting: 2, Unsent: 2}
		waiting.State = batches.StateOpen
		looks.asked = now.Add(time.Millisecond - askEvery)
		if looks.ask(t.Context(), now, b, waiting); looks.causes.Workers != nil || looks.causes.Lost != 0 {
			t.Errorf("asked too soon: %+v", looks.causes)
		}
		now = now.Add(time.Millisecond)
		if looks.ask(t.Context(), now, b, waiting); looks.causes.Workers == nil || looks.causes.Lost != 2 {
			t.Errorf("not asked: %+v", looks.causes)
		}
		stop()
		now = now.Add(askEvery)
		if looks.ask(t.Context(), now, b, waiting); *looks.causes.Workers != 0 || looks.causes.Lost != 0 {
			t.Errorf("asked without a worker: %+v", looks.causes)
		}
	})
}
