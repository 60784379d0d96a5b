package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

var errStore = errors.New("no answer")

// records is a deadletter.Store in memory that can be switched off.
type records struct {
	mu     sync.Mutex // guards the fields below
	down   bool
	calls  int
	failed map[string][]deadletter.Attempt
	dead   map[string]deadletter.Task
	well   map[string]bool
	state  func(id string) // called when a task is recorded
}

// source is what a worker takes.
type source struct{ deadletter.Store }

func (s source) Recorder() deadletter.Store { return s.Store }

func (source) EnsureIndexes(context.Context) error { return nil }

func newRecords() *records {
	return &records{
		failed: map[string][]deadletter.Attempt{}, dead: map[string]deadletter.Task{}, well: map[string]bool{},
	}
}

func (g *records) do(act func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.down {
		return errStore
	}
	act()
	return nil
}

func (g *records) set(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
}

func (g *records) Failed(_ context.Context, task deadletter.Ref, a deadletter.Attempt) error {
	return g.do(func() { g.failed[task.ID] = append(g.failed[task.ID], a) })
}

func (g *records) Record(_ context.Context, dead []deadletter.Task) error {
	return g.do(func() {
		for _, d := range dead {
			g.dead[d.ID] = d
			if g.state != nil {
				g.state(d.ID)
			}
		}
	})
}

func (g *records) Recovered(_ context.Context, task deadletter.Ref) error {
	return g.do(func() { g.well[task.ID] = true })
}

func (g *records) SentAgain(context.Context, string, []string) error { return nil }

func (g *records) Unknown(
	_ context.Context, archived []asynqdb.Archived,
) (unknown []asynqdb.Archived, err error) {
	err = g.do(func() {
		for _, a := range archived {
			if _, ok := g.dead[a.ID]; !ok {
				unknown = append(unknown, a)
			}
		}
	})
	return unknown, err
}

func (g *records) of(id string) (dead deadletter.Task, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	dead, ok = g.dead[id]
	return dead, ok
}

func (g *records) attempts(id string) []deadletter.Attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.failed[id])
}

// asked returns the number of calls, without the sweep's query, which is not made if the archive is empty.
func (g *records) asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

func (b *bundle) runDead(
	g deadletter.Store, every time.Duration, handler func(context.Context, *worker.Job[call]) error,
) {
	b.t.Helper()
	w := b.worker(worker.Config{Dead: source{g}, SweepEvery: every, Unserved: time.Millisecond})
	worker.Handle(w, handler)
	b.start(w)
}

func TestTheDeadHaveARecordBeforeAsynqArchivesThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		early := make(chan asynq.TaskState, 10)
		g.state = func(id string) {
			info, err := b.inspector.GetTaskInfo("default", id)
			if err != nil {
				t.Error(err)
				return
			}
			early <- info.State
		}
		b.runDead(g, time.Hour, func(context.Context, *worker.Job[call]) error { return errUpstream })
		info := b.enqueue(call{N: 7, Cost: 1}, tasks.Options{MaxRetry: 2, Timeout: time.Minute, Retention: time.Hour})
		b.hurry(info.ID)
		receive(t, b.finishes)
		receive(t, b.finishes)
		b.hurry(info.ID)
		b.info(info.ID, asynq.TaskStateArchived)
		if state := receive(t, early); state != asynq.TaskStateActive {
			t.Errorf("the task is %v as its record is written", state)
		}
		d, _ := g.of(info.ID)
		if d.Cause != deadletter.CauseRetries || d.Queue != "default" || d.Type != "call" ||
			!strings.Contains(string(d.Payload), `"n":7`) || d.Headers[envelope.HeaderCharges] == "" ||
			d.MaxRetry != 2+envelope.Slack || d.Timeout != time.Minute || d.Retention != time.Hour ||
			time.Since(d.At) > time.Second {
			t.Errorf("%+v", d)
		}
		if d.Last.Number != 3 || d.Last.Error != errUpstream.Error() || d.Last.Worker == "" {
			t.Errorf("%+v", d.Last)
		}
		if failed := g.attempts(info.ID); len(failed) != 2 || failed[0].Number != 1 || failed[1].Number != 2 ||
			failed[1].Error != errUpstream.Error() {
			t.Errorf("%+v", failed)
		}
	})
}

func TestWhyTasksDie(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		b.runDead(g, time.Hour, func(_ context.Context, job *worker.Job[call]) error {
			switch job.Args.N {
			case 1:
				return tasks.Permanent(errUpstream)
			case 2:
				panic("ouch")
			default:
				return errors.New("no \xff UTF-8")
			}
		})
		for name, tc := range map[string]struct {
			args  tasks.Args
			cause deadletter.Cause
			text  string
		}{
			"permanent":    {call{N: 1, Cost: 1}, deadletter.CausePermanent, "upstream is ill"},
			"panic":        {call{N: 2, Cost: 1}, deadletter.CauseRetries, "handler panicked: ouch"},
			"not UTF-8":    {call{N: 3, Cost: 1}, deadletter.CauseRetries, "no \uFFFD UTF-8"},
			"no limit":     {call{N: 4, Cost: 1, Limit: "none"}, deadletter.CauseRefused, "none"},
			"unknown type": {free{}, deadletter.CauseRefused, "no handler"},
		} {
			info := b.enqueue(tc.args, tasks.Options{MaxRetry: tasks.NoRetry})
			if tc.cause == deadletter.CauseRefused {
				receive(t, b.deferrals)
			}
			b.info(info.ID, asynq.TaskStateArchived)
			if d, _ := g.of(info.ID); d.Cause != tc.cause || !strings.Contains(d.Last.Error, tc.text) {
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
}

func TestWhatGoesWellCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		b.store.refuse = 1 // waiting is no failure
		b.runDead(g, time.Hour, func(_ context.Context, job *worker.Job[call]) error {
			if job.Args.N == 2 && job.Attempt == 1 {
				return errUpstream
			}
			return nil
		})
		first := b.enqueue(call{N: 1, Cost: 1})
		receive(t, b.deferrals)
		receive(t, b.finishes)
		b.gone(first.ID)
		if n := g.asked(); n != 0 {
			t.Errorf("%d calls for a task that went well", n)
		}
		second := b.enqueue(call{N: 2, Cost: 1})
		b.hurry(second.ID)
		b.gone(second.ID)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.calls != 2 || !g.well[second.ID] || len(g.dead) > 0 {
			t.Errorf("%d calls, %v went well, %v dead", g.calls, g.well, g.dead)
		}
	})
}

// A task whose workers died and a task that a person archived end without a call of Headway. The sweep finds both.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		before := b.enqueue(call{N: 1, Cost: 1})
		if err := b.inspector.ArchiveTask("default", before.ID); err != nil {
			t.Fatal(err)
		}
		b.runDead(g, 50*time.Millisecond, func(context.Context, *worker.Job[call]) error { return nil })
		found := func(id string) {
			t.Helper()
			eventually(t, id+" has a record", func() bool {
				_, ok := g.of(id)
				return ok
			})
			if d, _ := g.of(id); d.Cause != deadletter.CauseFound || d.Type != "call" ||
				d.Headers[envelope.HeaderCharges] == "" || d.MaxRetry != envelope.MaxRetryDefault+envelope.Slack {
				t.Errorf("%+v", d)
			}
		}
		found(before.ID)
		later := b.enqueue(call{N: 2, Cost: 1}, tasks.Options{At: time.Now().Add(time.Hour)})
		if err := b.inspector.ArchiveTask("default", later.ID); err != nil {
			t.Fatal(err)
		}
		found(later.ID)
	})
}

// asynq's recoverer archives a task whose workers died: its lease has ended, and no retry is left.
func TestDeadOfItsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		info, err := asynq.NewClientFromRedisClient(b.client).Enqueue(asynq.NewTask("call", []byte(`{"n":1,"cost":1}`)),
			asynq.MaxRetry(0))
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]any{ // a worker took it a minute ago
			{"rpoplpush", "asynq:{default}:pending", "asynq:{default}:active"},
			{"hset", "asynq:{default}:t:" + info.ID, "state", "active"},
			{"zadd", "asynq:{default}:lease", time.Now().Add(-time.Minute).Unix(), info.ID},
		} {
			if err := b.client.Do(t.Context(), command...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		b.runDead(g, 50*time.Millisecond, func(context.Context, *worker.Job[call]) error { return nil })
		eventually(t, "the record", func() bool {
			_, ok := g.of(info.ID)
			return ok
		})
		if d, _ := g.of(info.ID); d.Cause != deadletter.CauseFound || !strings.Contains(d.Last.Error, "lease expired") ||
			d.Last.Number != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// If the store is down when a task dies, the worker waits for a while. If it goes on without the record, the sweep
// searches the archive when the store is back.
func TestDeadWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		g.set(true)
		b.runDead(g, 100*time.Millisecond, func(context.Context, *worker.Job[call]) error {
			return tasks.Permanent(errUpstream)
		})
		hasty := b.enqueue(call{N: 1, Cost: 1}, tasks.Options{Timeout: 2 * time.Second}) // asynq must get an answer in time
		b.info(hasty.ID, asynq.TaskStateArchived)
		patient := b.enqueue(call{N: 2, Cost: 1})
		for receive(t, b.finishes).Task.ID != patient.ID {
		}
		b.info(patient.ID, asynq.TaskStateActive)
		g.set(false)
		b.info(patient.ID, asynq.TaskStateArchived)
		if d, _ := g.of(patient.ID); d.Cause != deadletter.CausePermanent {
			t.Errorf("%+v", d)
		}
		eventually(t, "the record of the hasty one", func() bool {
			_, ok := g.of(hasty.ID)
			return ok
		})
		if d, _ := g.of(hasty.ID); d.Cause != deadletter.CauseFound || d.Last.Error == "" {
			t.Errorf("%+v", d)
		}
	})
}

// In a fleet one worker sweeps a queue in each interval.
func TestSweepsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		info := b.enqueue(call{Cost: 1})
		if err := b.inspector.ArchiveTask("default", info.ID); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			b.runDead(g, time.Hour, func(context.Context, *worker.Job[call]) error { return nil })
		}
		eventually(t, "the record", func() bool {
			_, ok := g.of(info.ID)
			return ok
		})
		b.enqueue(call{Cost: 1})
		receive(t, b.finishes)
		if n := g.asked(); n != 2 { // the query for unknown tasks, and the record
			t.Errorf("the store of dead tasks was asked %d times", n)
		}
	})
}

func TestAdoptedServerKeepsRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		limits, err := worker.Adopt(b.client, b.limiter, worker.Config{
			Dead: source{g}, SweepEvery: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		server := limits.Server(asynq.Config{LogLevel: asynq.FatalLevel, Queues: map[string]int{"mine": 1}})
		if err = limits.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err = server.Start(
			limits.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errUpstream }))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			server.Shutdown()
			if stopped := limits.Stop(context.WithoutCancel(t.Context())); stopped != nil {
				t.Error(stopped)
			}
		})
		ours := b.enqueue(call{Cost: 1}, tasks.Options{Queue: "mine", MaxRetry: tasks.NoRetry})
		foreign, err := asynq.NewClientFromRedisClient(b.client).Enqueue(asynq.NewTask("foreign", nil), asynq.Queue("mine"),
			asynq.MaxRetry(0))
		if err != nil {
			t.Fatal(err)
		}
		causes := map[string]deadletter.Cause{ours.ID: deadletter.CauseRetries, foreign.ID: deadletter.CauseFound}
		for id, want := range causes {
			eventually(t, "a record of "+id, func() bool {
				_, ok := g.of(id)
				return ok
			})
			if d, _ := g.of(id); d.Cause != want || d.Last.Error != errUpstream.Error() {
				t.Errorf("%+v, want %s", d, want)
			}
		}
	})
}

// A worker that stops while the store is down gives the task back. No task is archived or left active.
func TestStopWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		g.set(true)
		w := b.worker(worker.Config{Dead: source{g}, SweepEvery: time.Hour, ShutdownTimeout: 100 * time.Millisecond})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { return tasks.Permanent(errUpstream) })
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		info := b.enqueue(call{Cost: 1})
		receive(t, b.finishes)
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.info(info.ID, asynq.TaskStatePending); got.Retried != 0 {
			t.Errorf("%+v", got)
		}
		if _, ok := g.of(info.ID); ok {
			t.Error("it has a record, and is in the queue")
		}
	})
}
