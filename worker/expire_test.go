package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func never(context.Context, *worker.Job[call]) error { return errors.New("it ran") }

// A waiting task ends at its StartBy, with a record, and its reservation is released.
func TestATaskThatWaitsExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(10)), newRecords()
		w := b.worker(worker.Config{Dead: source{g}})
		worker.Handle(w, never)
		worker.Handle(w, func(context.Context, *worker.Job[free]) error { return nil })
		b.start(w)
		if _, err := inside.Of(b.limiter).Ask(t.Context(), call{Cost: 10}.Charges()[0]); err != nil {
			t.Fatal(err)
		}
		reserved := func() float64 {
			held, _, _ := bucket.Read(t.Context(), b.store, "api", "")
			return held.Meters[0].Reserved
		}
		before := reserved()
		by := time.Now().Add(1500 * time.Millisecond)
		info := b.enqueue(call{Cost: 5}, tasks.Options{StartBy: by})
		receive(t, b.deferrals)
		if got := reserved(); got > before-4 {
			t.Errorf("nothing is reserved: %v, %v before", got, before)
		}
		refusal := receive(t, b.refusals)
		if late := time.Since(by.Truncate(time.Millisecond)); late < 0 || late > 100*time.Millisecond {
			t.Errorf("expired %v after its time", late)
		}
		if refusal.Task.ID != info.ID || !errors.Is(refusal.Err, tasks.ErrExpired) {
			t.Errorf("refused %+v", refusal)
		}
		b.info(info.ID, asynq.TaskStateArchived)
		if dead, ok := g.of(info.ID); !ok || dead.Cause != deadletter.CauseExpired {
			t.Errorf("the record is %+v", dead)
		}
		eventually(t, "the reservation is released", func() bool { return reserved() > before-1 })
	})
}

// The StartBy passes before a worker takes the task.
func TestATaskThatComesTooLateExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		by := time.Now().Add(200 * time.Millisecond)
		infos, err := b.scheduler.EnqueueMany(t.Context(), []tasks.Args{call{Cost: 1}, free{}}, tasks.Options{StartBy: by})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Until(by) + time.Millisecond)
		w := b.worker(worker.Config{})
		worker.Handle(w, never)
		worker.Handle(w, func(context.Context, *worker.Job[free]) error { return errors.New("it ran") })
		b.start(w)
		for range 2 {
			if r := receive(t, b.refusals); !errors.Is(r.Err, tasks.ErrExpired) {
				t.Errorf("refused %+v", r)
			}
		}
		for _, info := range infos {
			b.info(info.ID, asynq.TaskStateArchived)
		}
		if n := b.store.asks(); n != 0 {
			t.Errorf("the bucket was asked %d times", n)
		}
	})
}

// A retry that would start too late ends the task at once.
func TestARetryExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		b.run(func(context.Context, *worker.Job[call]) error { return errors.New("failed") })
		info := b.enqueue(call{Cost: 1}, tasks.Options{StartBy: time.Now().Add(4 * time.Second)})
		r := receive(t, b.refusals)
		if r.Task.ID != info.ID || r.Task.Attempt < 2 || !errors.Is(r.Err, tasks.ErrExpired) {
			t.Errorf("refused %+v", r)
		}
	})
}

// Tasks start at their time, not at asynq's next whole second.
func TestTasksStartToTheMillisecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		starts := make(chan time.Time, 10)
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { starts <- time.Now(); return nil })
		worker.Handle(w, func(context.Context, *worker.Job[free]) error { starts <- time.Now(); return nil })
		b.start(w)
		<-time.After(2 * time.Second) // a timer of before the first look may be 1.5 s late
		for name, enqueue := range map[string]func(o tasks.Options) error{
			"unlimited": func(o tasks.Options) error {
				_, err := w.Scheduler().Enqueue(t.Context(), free{}, o)
				return err
			},
			"limited": func(o tasks.Options) error {
				_, err := w.Scheduler().Enqueue(t.Context(), call{Cost: 1}, o)
				return err
			},
			"reserved": func(o tasks.Options) error {
				_, err := w.Scheduler().Enqueue(t.Context(), call{Cost: 1}, o)
				return err
			},
		} {
			at := time.Now().Truncate(time.Second).Add(1123 * time.Millisecond)
			if err := enqueue(tasks.Options{At: at}); err != nil {
				t.Fatal(err)
			}
			if late := receive(t, starts).Sub(at); late < 0 || late >= time.Millisecond {
				t.Errorf("%s: started %v after its time", name, late)
			}
		}
	})
}
