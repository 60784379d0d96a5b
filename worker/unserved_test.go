package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// otherMeter is a task that charges a meter which its limit lacks.
type otherMeter struct{}

func (otherMeter) TaskType() string { return "call" }

func (otherMeter) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"images": 1}}}
}

// A worker returns tasks that it can't serve, with no retry used, and warns once for each thing that it lacks. They
// wait, and come at once when a worker appears that can serve them.
func TestTasksWaitForAWorkerThatCanServeThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		log := newLines()
		w := b.worker(worker.Config{Logger: slog.New(log)})
		worker.Handle(w, ok)
		b.start(w)
		lacking := map[string]bool{}
		for _, args := range []tasks.Args{free{}, call{Limit: "else", Cost: 1}, otherMeter{}} {
			lacking[b.enqueue(args, tasks.Options{MaxRetry: tasks.NoRetry}).ID] = true
		}
		for range lacking {
			receive(t, b.deferrals)
		}
		for id := range lacking {
			info := b.info(id, asynq.TaskStateRetry)
			if info.Retried != 0 || !strings.HasPrefix(info.LastErr, "waiting for another worker: ") {
				t.Errorf("%+v", info)
			}
		}
		if n := log.count("task returned to the queue"); n != len(lacking) {
			t.Errorf("%d warnings", n)
		}
		if n := b.store.begins(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}

		<-time.After(10 * time.Minute)              // then they come by themselves after long pauses alone
		if err := w.Stop(t.Context()); err != nil { // else it may be the one that takes them
			t.Fatal(err)
		}
		rich := *b
		other, images := slow(10), slow(10)
		other.Name, images.Meters = "else", []reservations.Meter{{Name: "images", Rate: 1, Period: time.Hour}}
		var err error
		limits := []reservations.Limit{images, other}
		if rich.limiter, err = reservations.New(b.store, limits, reservations.Config{}); err != nil {
			t.Fatal(err)
		}
		v := rich.worker(worker.Config{})
		worker.Handle(v, ok)
		worker.Handle(v, func(context.Context, *worker.Job[free]) error { return nil })
		rich.start(v)
		began := time.Now()
		for range lacking {
			if f := receive(t, b.finishes); !lacking[f.Task.ID] || f.Kind != worker.KindSucceeded {
				t.Errorf("%+v", f)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("they came after %v", took)
		}
	})
}

// Where Config.Unserved names a time, tasks are archived that workers have returned for so long, unless a live worker
// can serve them.
func TestArchivesWhatNoWorkerServes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		other := register.Member{
			Name: "other:1", Types: []string{"call"}, Limits: register.ByName([]reservations.Limit{
				{Name: "else", Meters: []reservations.Meter{reservations.PerMinute("tokens", 1)}},
			}),
		}
		if err := register.New(b.client).Renew(t.Context(), "other", other); err != nil {
			t.Fatal(err)
		}
		b.client.Persist(t.Context(), "headway:{fleet}:member:other") // it lives on
		w := b.worker(worker.Config{Unserved: time.Hour})
		worker.Handle(w, ok)
		lacking := map[string]error{}
		for _, test := range []struct {
			args tasks.Args
			want error
		}{
			{free{}, worker.ErrUnknownType},
			{call{Limit: "else", Cost: 1}, reservations.ErrUnknownLimit},
			{otherMeter{}, reservations.ErrUnknownMeter},
		} {
			id := b.enqueue(test.args, tasks.Options{MaxRetry: tasks.NoRetry}).ID
			lacking[id] = test.want
			ago := time.Now().Add(-time.Hour).UnixMilli() // when it was returned first
			if err := b.client.Set(t.Context(), "headway:{fleet}:returned:default/"+id, ago, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		b.start(w)
		for range 2 {
			refused := receive(t, b.refusals)
			want := lacking[refused.Task.ID]
			if !strings.HasPrefix(refused.Err.Error(), "no worker of the fleet could serve the task for 1h0m0s") ||
				!errors.Is(refused.Err, want) || errors.Is(want, reservations.ErrUnknownLimit) {
				t.Errorf("refused %+v, want %v", refused, want)
			}
			if archived := b.info(refused.Task.ID, asynq.TaskStateArchived); archived.LastErr != refused.Err.Error() {
				t.Errorf("asynq shows %q", archived.LastErr)
			}
		}
		if d := receive(t, b.deferrals); !errors.Is(lacking[d.Task.ID], reservations.ErrUnknownLimit) {
			t.Errorf("a live worker can serve it: %+v", d)
		}
	})
}

// A handler leaves tasks to another worker: no failure is recorded, no retry is used, and only the first task of a
// limit is a warning.
func TestHandlerLeavesTasksToAnotherWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		log, records := newLines(), newRecords()
		w := b.worker(worker.Config{Logger: slog.New(log), Dead: source{records}})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Unused(job.Charges...))
			return dispatcher.WaitWorker("this worker has no key", time.Hour)
		})
		b.start(w)
		const n = 3
		for range n {
			id := b.enqueue(call{Cost: 2}, tasks.Options{MaxRetry: tasks.NoRetry}).ID
			if f := receive(t, b.finishes); f.Task.ID != id || f.Kind != worker.KindAborted {
				t.Errorf("%+v", f)
			}
			if info := b.info(id, asynq.TaskStateRetry); info.Retried != 0 || !strings.HasSuffix(info.LastErr, "has no key") {
				t.Errorf("%+v", info)
			}
		}
		if err := records.do(func() {
			if len(records.failed) != 0 {
				t.Errorf("recorded %v", records.failed)
			}
		}); err != nil {
			t.Error(err)
		}
		if warnings := log.count("task returned to the queue"); warnings != 1 || b.balance() != 10 {
			t.Errorf("%d warnings, balance %v", warnings, b.balance())
		}
	})
}

// Of two workers, one lacks the limit: all tasks run on the other one.
func TestFleetWithOneWorkerThatLacksALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(ok)
		poor := *b
		var err error
		if poor.limiter, err = reservations.New(b.store, nil, reservations.Config{}); err != nil {
			t.Fatal(err)
		}
		poor.run(ok)
		const n = 10
		for i := range n {
			b.enqueue(call{N: i, Cost: 1})
		}
		for range n {
			// Chance decides which worker takes a task, again after each pause.
			if f := receiveIn(t, b.finishes, time.Hour); f.Kind != worker.KindSucceeded {
				t.Errorf("%+v", f)
			}
		}
	})
}

// A worker logs that another worker has other settings for a limit of the same name.
func TestWarnsOfOtherSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		other := register.Member{Name: "other:1", Limits: register.ByName([]reservations.Limit{
			{Name: "api", Meters: []reservations.Meter{{Name: "tokens", Rate: 5, Period: time.Hour, Capacity: 10}}},
			{Name: "unknown", Meters: []reservations.Meter{reservations.PerMinute("tokens", 1)}},
		})}
		if err := register.New(b.client).Renew(t.Context(), "other", other); err != nil {
			t.Fatal(err)
		}
		log := newLines()
		w := b.worker(worker.Config{Logger: slog.New(log)})
		worker.Handle(w, ok)
		b.start(w)
		const want = "limit=api meter=tokens here=1/h, at most 10 at once there=5/h, at most 10 at once worker=other:1"
		if log.await(t, want); log.count("limit=unknown") != 0 {
			t.Error("a limit of one worker alone is no difference")
		}
	})
}

// A task whose charge leaves out a meter of its limit waits if no producer checked it: it would be unlimited in that
// meter. Where a producer checked it, the limit got the meter since, and serves it.
func TestAChargeThatLeavesOutAMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := slow(10)
		b := setup(t, limit)
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		checked, err := scheduler.New(b.client, b.limiter, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		good, err := checked.Enqueue(t.Context(), call{Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		unchecked, err := scheduler.New(b.client, nil, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		limit.Meters = append(slices.Clone(limit.Meters), reservations.Meter{Name: "requests", Rate: 5, Period: time.Hour})
		if err = b.limiter.SetLimits([]reservations.Limit{limit}); err != nil {
			t.Fatal(err)
		}
		b.start(w)
		if f := receive(t, b.finishes); f.Task.ID != good.ID || f.Kind != worker.KindSucceeded {
			t.Errorf("%+v", f)
		}
		bad, err := unchecked.Enqueue(t.Context(), call{Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d := receive(t, b.deferrals); d.Task.ID != bad.ID ||
			!strings.Contains(d.Err.Error(), `has no limit "api" without meter "requests", which the charge of the task`) {
			t.Errorf("%+v", d)
		}
		if _, err = checked.Enqueue(t.Context(), call{Cost: 1}); !errors.Is(err, reservations.ErrMeterLeftOut) {
			t.Error(err)
		}
	})
}
