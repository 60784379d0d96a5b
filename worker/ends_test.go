package worker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// ends observes the scripts by which asynq ends a task. They name the lists of active tasks and of leases, and not
// the list of pending ones.
type ends struct {
	failed chan string // scripts without an answer
}

func (*ends) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*ends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (e *ends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		name := nameOf(cmd)
		if _, answered := errors.AsType[redis.Error](err); err == nil || answered ||
			!strings.Contains(name, " active lease") || strings.Contains(name, " pending") {
			return err
		}
		select {
		case e.failed <- name:
		default: // more than the test needs
		}
		return err
	}
}

// cuttable returns a bundle, and the network by which its workers reach Redis. Its inspector and its producer have
// another one.
func cuttable(t *testing.T) (*bundle, *network.Wire, *ends) {
	t.Helper()
	b := setup(t, slow(100))
	client, wire := connect(t, b.server)
	e := &ends{failed: make(chan string, 100)}
	client.AddHook(e)
	b.client = client
	return b, wire, e
}

// A result that Redis did not receive is sent as soon as Redis is back. Without that, the task would run again after
// asynq's lease, in one to two minutes.
func TestTasksThatEndWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result error
		then   asynq.TaskState // zero: asynq deletes the task
		retain time.Duration
	}{
		"done":      {},
		"completed": {then: asynq.TaskStateCompleted, retain: time.Hour},
		"failed":    {result: errors.New("refused"), then: asynq.TaskStateRetry},
		"permanent": {result: tasks.Permanent(errors.New("broken")), then: asynq.TaskStateArchived},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, wire, ends := cuttable(t)
				var calls atomic.Int64
				b.run(func(context.Context, *worker.Job[call]) error {
					calls.Add(1)
					wire.Set(network.Refuse)
					return c.result
				})
				info := b.enqueue(call{Cost: 10}, tasks.Options{Retention: c.retain})
				receive(t, b.finishes)
				t.Log("away:", receive(t, ends.failed))
				wire.Set(network.Up)
				if c.then == 0 {
					b.gone(info.ID)
				} else {
					b.info(info.ID, c.then)
				}
				if calls.Load() != 1 {
					t.Errorf("%d calls, want one", calls.Load())
				}
			})
		})
	}
}

// cuttingStore cuts the connection to Redis before its first answer.
type cuttingStore struct {
	*faultStore
	cut func()
}

func (s *cuttingStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.faultStore))
}

func (s *cuttingStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	s.cut()
	return bucket.Apply(ctx, s.faultStore, limit, key, requests)
}

// A task that was sent back while Redis was down is back when Redis is back.
func TestTasksSentBackWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, wire, ends := cuttable(t)
		b.store.refuse = 1
		var err error
		store := &cuttingStore{faultStore: b.store, cut: sync.OnceFunc(func() { wire.Set(network.Refuse) })}
		if b.limiter, err = reservations.New(store, []reservations.Limit{slow(100)}, reservations.Config{}); err != nil {
			t.Fatal(err)
		}
		b.run(ok)
		b.enqueue(call{Cost: 10})
		receive(t, b.deferrals)
		t.Log("away:", receive(t, ends.failed))
		wire.Set(network.Up)
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 {
			t.Errorf("finish %+v", f)
		}
	})
}

// While Redis is down, a worker stops as fast as usual. Tasks with unsent results come back after their leases.
func TestStopWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, wire, ends := cuttable(t)
		w := b.worker(worker.Config{ShutdownTimeout: time.Hour}) // which the stop must not need
		worker.Handle(w, func(context.Context, *worker.Job[call]) error {
			wire.Set(network.Refuse)
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(call{Cost: 10})
		receive(t, b.finishes)
		t.Log("away:", receive(t, ends.failed))
		began := time.Now()
		if err := w.Stop(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("stopped after %v: %v", time.Since(began), err)
		}
		b.info(info.ID, asynq.TaskStateActive)
	})
}

// lossy loses the answers to the first dequeues that returned a task.
type lossy struct {
	left   atomic.Int64
	missed atomic.Int64
}

func (*lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil || !strings.HasPrefix(nameOf(cmd), "evalsha") ||
			!strings.Contains(nameOf(cmd), " pending paused active lease") || d.left.Add(-1) < 0 {
			return err
		}
		d.missed.Add(1)
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

// A dequeued task whose reply was lost is the next task of the worker, once, long before its lease ends.
func TestDequeuedTasksWhoseRepliesWereLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all, missed = 20, 3
		b := setup(t, slow(100))
		d := &lossy{}
		b.client.AddHook(d)
		b.run(ok)
		b.enqueue(call{Cost: 1}) // from now on Redis knows the script
		receive(t, b.finishes)
		d.left.Store(missed)
		ids := map[string]int{}
		for range all {
			ids[b.enqueue(call{Cost: 1}).ID] = 0
		}
		for range all {
			f := receive(t, b.finishes)
			if ids[f.Task.ID]++; f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 || ids[f.Task.ID] != 1 {
				t.Errorf("finish %d of the task: %+v", ids[f.Task.ID], f)
			}
		}
		for id := range ids {
			b.gone(id)
		}
		if d.missed.Load() != missed || len(b.finishes) != 0 {
			t.Errorf("%d missed, and %d finishes more", d.missed.Load(), len(b.finishes))
		}
	})
}
