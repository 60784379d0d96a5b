package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func never(context.Context, *worker.Job[call]) error { return errors.New("it ran") }

// inTime calls try with a time that grows until try returns true. A machine that stalls needs more time.
func inTime(t *testing.T, first time.Duration, try func(time.Duration) bool) {
	t.Helper()
	for d := first; !try(d); d *= 2 {
		if d > patience {
			t.Fatalf("not in %v", d)
		}
	}
}

// A waiting task ends at its StartBy, with a record, and its reservation is released.
func TestATaskThatWaitsExpires(t *testing.T) {
	t.Parallel()
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
	var by time.Time
	var info *asynq.TaskInfo
	inTime(t, 1500*time.Millisecond, func(d time.Duration) bool {
		by = time.Now().Add(d)
		var err error
		if info, err = b.scheduler.Enqueue(t.Context(), call{Cost: 5}, tasks.Options{StartBy: by}); err != nil {
			return false
		}
		eventually(t, "an event", func() bool { return len(b.deferrals)+len(b.refusals) > 0 })
		got := reserved()
		if time.Now().Before(by) {
			if got > before-4 {
				t.Errorf("nothing is reserved: %v, %v before", got, before)
			}
			return true
		}
		receive(t, b.refusals)
		for len(b.deferrals) > 0 { // of this try
			<-b.deferrals
		}
		return false
	})
	refusal := receive(t, b.refusals)
	if now := time.Now(); now.Before(by.Truncate(time.Millisecond)) {
		t.Errorf("expired %v too early", by.Sub(now))
	}
	if refusal.Task.ID != info.ID || !errors.Is(refusal.Err, tasks.ErrExpired) {
		t.Errorf("refused %+v", refusal)
	}
	b.info(info.ID, asynq.TaskStateArchived)
	if dead, ok := g.of(info.ID); !ok || dead.Cause != deadletter.CauseExpired {
		t.Errorf("the record is %+v", dead)
	}
	eventually(t, "the reservation is released", func() bool { return reserved() > before-1 })
}

// The StartBy passes before a worker takes the task.
func TestATaskThatComesTooLateExpires(t *testing.T) {
	t.Parallel()
	b := setup(t, slow(10))
	var by time.Time
	var infos []*asynq.TaskInfo
	inTime(t, 200*time.Millisecond, func(d time.Duration) bool {
		by = time.Now().Add(d)
		var err error
		infos, err = b.scheduler.EnqueueMany(t.Context(), []tasks.Args{call{Cost: 1}, free{}}, tasks.Options{StartBy: by})
		return err == nil
	})
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
}

// A retry that would start too late ends the task at once.
func TestARetryExpires(t *testing.T) {
	t.Parallel()
	b := setup(t, slow(10))
	b.run(func(context.Context, *worker.Job[call]) error { return errors.New("failed") })
	inTime(t, 4*time.Second, func(d time.Duration) bool {
		info, err := b.scheduler.Enqueue(t.Context(), call{Cost: 1}, tasks.Options{StartBy: time.Now().Add(d)})
		if err != nil {
			return false
		}
		r := receive(t, b.refusals)
		if r.Task.ID != info.ID || !errors.Is(r.Err, tasks.ErrExpired) {
			t.Errorf("refused %+v", r)
		}
		return r.Task.Attempt >= 2
	})
}

// Tasks start at their time: never before, and where the machine does not stall not at asynq's next whole second.
func TestTasksStartToTheMillisecond(t *testing.T) {
	t.Parallel()
	b := setup(t, slow(100))
	w := b.worker(worker.Config{})
	starts := make(chan time.Time, 10)
	worker.Handle(w, func(context.Context, *worker.Job[call]) error { starts <- time.Now(); return nil })
	worker.Handle(w, func(context.Context, *worker.Job[free]) error { starts <- time.Now(); return nil })
	b.start(w)
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
		exact := false
		for tries := 0; !exact; tries++ {
			at := time.Now().Truncate(time.Second).Add(1123 * time.Millisecond)
			if err := enqueue(tasks.Options{At: at}); err != nil {
				t.Fatal(err)
			}
			late := receive(t, starts).Sub(at)
			t.Logf("%s: started %v after its time", name, late)
			if late < 0 || tries == 20 {
				t.Fatalf("%s: started %v after its time", name, late)
			}
			exact = late < 877*time.Millisecond
		}
	}
}
