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

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// filling returns a limit with room for one task that costs 10, and for another one after each period.
func filling(period time.Duration) reservations.Limit {
	return reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 10, Period: period, Capacity: 10},
	}}
}

// refill changes the limits. A test waits first for what must happen while a bucket is empty.
func (b *bundle) refill(limits ...reservations.Limit) {
	b.t.Helper()
	if err := b.limiter.SetLimits(limits); err != nil {
		b.t.Fatal(err)
	}
}

// refusing returns a handler whose first calls are refused for d, with no usage.
func refusing(times int, d time.Duration) func(context.Context, *worker.Job[call]) error {
	left := make(chan struct{}, times)
	for range times {
		left <- struct{}{}
	}
	return func(_ context.Context, job *worker.Job[call]) error {
		select {
		case <-left:
			job.Use(reservations.Tokens{"tokens": 0})
			return reservations.RetryAfter(d, errUpstream)
		default:
			return nil
		}
	}
}

// One of three workers is refused. No worker starts a task in that bucket before the end of the block. Then the
// refused task is the first, and the others follow in order, without a delivery meanwhile.
func TestRefusedUpstreamStopsTheFleet(t *testing.T) {
	t.Parallel()
	const block = 1500 * time.Millisecond
	t.Run("nothing was used", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			refusedFleet(t, block, refusing(1, block))
		})
	})
	t.Run("the estimate stays charged", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			refuse := refusing(1, block)
			refusedFleet(t, block, func(ctx context.Context, job *worker.Job[call]) error {
				return refuse(ctx, &worker.Job[call]{})
			})
		})
	})
}

func refusedFleet(t *testing.T, block time.Duration, refuse func(context.Context, *worker.Job[call]) error) {
	t.Helper()
	const n = 4
	b := setup(t, filling(time.Hour)) // no tokens come before all others wait
	allWait := make(chan struct{})
	for range 3 {
		w := b.worker(worker.Config{})
		worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
			<-allWait
			return refuse(ctx, job)
		})
		b.start(w)
	}
	first := b.enqueue(call{N: 0, Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry, Retention: time.Minute})
	want := []string{first.ID}
	receive(t, b.starts)
	for i := 1; i < n; i++ {
		info := b.enqueue(call{N: i, Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		if d := receive(t, b.deferrals); d.Task.ID != info.ID {
			t.Fatalf("deferred %+v", d)
		}
		want = append(want, info.ID)
	}
	b.refill(filling(time.Second))
	close(allWait)
	blocked := receive(t, b.blocks)
	if blocked.Task.ID != first.ID || blocked.Blocked != block || blocked.Err != nil ||
		!errors.Is(blocked.Refusal, errUpstream) {
		t.Errorf("block %+v", blocked)
	}
	var order []string
	for range n {
		s := receive(t, b.starts)
		order = append(order, s.Task.ID)
		at, end := s.Outcome.At.Add(s.Outcome.Hold), blocked.Outcome.At.Add(block)
		if at.Before(end.Add(-time.Microsecond)) || s.Task.Attempt != 1 {
			t.Errorf("attempt %d of %s starts %v before the end", s.Task.Attempt, s.Task.ID, end.Sub(at))
		}
	}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if done := b.info(first.ID, asynq.TaskStateCompleted); done.Retried != 0 {
		t.Errorf("%d retries used", done.Retried)
	}
	if f := receive(t, b.finishes); f.Kind != worker.KindRefused || f.Task.ID != first.ID ||
		!errors.Is(f.Err, errUpstream) {
		t.Errorf("finish %+v", f)
	}
	d := receive(t, b.deferrals)
	if d.Task.ID != first.ID || !errors.Is(d.Err, errUpstream) ||
		!strings.Contains(d.Err.Error(), "refused by the provider") {
		t.Errorf("deferral %+v", d)
	}
	for len(b.deferrals) > 0 {
		if d := receive(t, b.deferrals); d.Outcome.At.Before(
			blocked.Outcome.At.Add(block - bucket.Hold)) {
			t.Errorf("delivered during the block: %+v", d)
		}
	}
}

func TestOnlyEverRefusedFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, filling(10*time.Millisecond))
		w := b.worker(worker.Config{MaxRefusals: 2})
		worker.Handle(w, refusing(100, 20*time.Millisecond))
		b.start(w)
		info := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: 1})
		results := func() (got []worker.Kind) {
			for range 3 {
				got = append(got, receive(t, b.finishes).Kind)
			}
			return got
		}
		if got := results(); !slices.Equal(got, []worker.Kind{
			worker.KindRefused, worker.KindRefused, worker.KindFailed,
		}) {
			t.Errorf("first attempt: %v", got)
		}
		if retry := b.info(info.ID, asynq.TaskStateRetry); retry.Retried != 1 {
			t.Errorf("retried %d times, want 1", retry.Retried)
		}
		b.hurry(info.ID)
		if got := results(); !slices.Equal(got, []worker.Kind{
			worker.KindRefused, worker.KindRefused, worker.KindArchived,
		}) {
			t.Errorf("second attempt: %v", got)
		}
		b.info(info.ID, asynq.TaskStateArchived)
		for _, key := range b.client.Keys(t.Context(), "*refused:*").Val() {
			if n := b.client.HGet(t.Context(), key, "times").Val(); n != "" || b.client.TTL(t.Context(), key).Val() <= 0 {
				t.Errorf("a count is left: %q in %s", n, key)
			}
		}
	})
}

// Calls that are under way when their key is refused are one line of the log, and one at debug level for each more.
func TestAStopIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 5
		b := setup(t, slow(1000))
		log, running := newLines(), make(chan struct{}, calls)
		w := b.worker(worker.Config{Logger: slog.New(log)})
		all := make(chan struct{})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			running <- struct{}{}
			<-all
			<-time.After(time.Duration(job.Args.N) * time.Millisecond)
			return &reservations.RetryAfterError{Reason: reservations.ReasonKey, Err: errUpstream}
		})
		b.start(w)
		for i := range calls {
			b.enqueue(call{N: i, Cost: 10})
		}
		for range calls {
			receive(t, running)
		}
		close(all)
		for range calls {
			receive(t, b.blocks)
			receive(t, b.finishes)
		}
		if n := log.count("does not accept the key"); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

// A task that is always refused blocks its limit for max_block in total, however often it runs.
func TestRefusalsOfOneTaskAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 100 * time.Millisecond
		limit := filling(10 * time.Millisecond)
		limit.MaxBlock = most
		b := setup(t, limit)
		w := b.worker(worker.Config{MaxRefusals: 2})
		worker.Handle(w, refusing(5, 60*time.Millisecond))
		b.start(w)
		info := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: 1})
		const refused, failed = worker.KindRefused, worker.KindFailed
		for _, want := range []worker.Kind{refused, refused, failed, refused, refused} {
			f := receive(t, b.finishes)
			if f.Kind != want {
				t.Errorf("finish %+v, want %s", f, want)
			}
			if f.Kind == failed {
				b.hurry(info.ID)
			}
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded {
			t.Errorf("finish %+v", f)
		}
		var all time.Duration
		for len(b.blocks) > 0 {
			e := receive(t, b.blocks)
			all += e.Outcome.Wait()
		}
		if all != most {
			t.Errorf("blocked for %v, want %v", all, most)
		}
	})
}

// These errors are not refusals with a valid time. One that names no time pauses the bucket for a second and more.
func TestRefusalsThatCountAsSomethingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want worker.Kind
		long time.Duration
	}{
		"no time":       {reservations.RetryAfter(0, errUpstream), worker.KindRefused, time.Second},
		"negative time": {reservations.RetryAfter(-time.Second, errUpstream), worker.KindRefused, time.Second},
		"permanent":     {reservations.RetryAfter(time.Second, tasks.Permanent(errUpstream)), worker.KindArchived, 0},
		"a year": {
			reservations.RetryAfter(365*24*time.Hour, errUpstream), worker.KindRefused, bucket.MaxBlockDefault,
		},
		"handmade": {
			&reservations.RetryAfterError{After: 365 * 24 * time.Hour}, worker.KindRefused, bucket.MaxBlockDefault,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, slow(100))
				b.run(func(context.Context, *worker.Job[call]) error { return c.err })
				b.enqueue(call{Cost: 10})
				if f := receive(t, b.finishes); f.Kind != c.want {
					t.Errorf("finish %+v", f)
				}
				if c.long == 0 {
					if len(b.blocks) > 0 {
						t.Errorf("blocked %+v", receive(t, b.blocks))
					}
					return
				}
				longest := c.long
				if c.long == time.Second {
					longest = 3 * c.long / 2
				}
				if e := receive(t, b.blocks); e.Blocked < c.long || e.Blocked > longest || e.Outcome.Wait() != e.Blocked {
					t.Errorf("blocked %+v", e)
				}
				if d := receive(t, b.deferrals); (time.Until(d.Until) - c.long).Abs() > time.Second {
					t.Errorf("deferred %+v", d)
				}
			})
		})
	}
}

func TestRefusedUnlimitedTaskWaitsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		refusals := make(chan error, 1)
		refusals <- reservations.RetryAfter(time.Hour, errUpstream)
		worker.Handle(w, func(context.Context, *worker.Job[free]) error {
			select {
			case err := <-refusals:
				return err
			default:
				return nil
			}
		})
		b.start(w)
		info := b.enqueue(free{}, tasks.Options{MaxRetry: tasks.NoRetry})
		d := receive(t, b.deferrals)
		if !errors.Is(d.Err, dispatcher.ErrDeferred) || !errors.Is(d.Err, errUpstream) ||
			(time.Until(d.Until)-time.Hour).Abs() > time.Second {
			t.Errorf("deferral %+v", d)
		}
		if retry := b.info(info.ID, asynq.TaskStateRetry); retry.Retried != 0 ||
			(time.Until(retry.NextProcessAt)-time.Hour).Abs() > 2*time.Second {
			t.Errorf("asynq shows %+v", retry)
		}
		b.hurry(info.ID)
		if f := receive(t, b.finishes); f.Kind != worker.KindRefused {
			t.Errorf("finish %+v", f)
		}
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || f.Task.Attempt != 1 || len(b.blocks) > 0 {
			t.Errorf("finish %+v", f)
		}
	})
}

// If the store is down when the provider refuses, the task still goes back, and the block follows later.
func TestRefusedWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, filling(time.Second))
		refusals := make(chan error, 1)
		refusals <- reservations.RetryAfter(time.Hour, errUpstream)
		b.run(func(context.Context, *worker.Job[call]) error {
			select {
			case err := <-refusals:
				b.store.set(func(s *faultStore) { s.down = true })
				return err
			default: // the task goes back before the block
				return nil
			}
		})
		b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		if d := receive(t, b.deferrals); !errors.Is(d.Err, reservations.ErrUnavailable) || !errors.Is(d.Err, errUpstream) ||
			!d.Outcome.At.IsZero() {
			t.Errorf("deferral %+v", d)
		}
		b.store.set(func(s *faultStore) { s.down = false })
		if e := receive(t, b.blocks); e.Err != nil || e.Outcome.Wait() < 9*time.Minute {
			t.Errorf("block %+v", e)
		}
	})
}

func TestAdoptedServerIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, filling(10*time.Millisecond))
		refusals := make(chan error, 1)
		refusals <- reservations.RetryAfter(100*time.Millisecond, errUpstream)
		b.adopt(asynq.Config{}, func(ctx context.Context, task *asynq.Task) error {
			if task.Type() != "chat" {
				return reservations.RetryAfter(time.Hour, errUpstream)
			}
			select {
			case err := <-refusals:
				worker.Use(ctx, reservations.Tokens{"tokens": 0})
				return err
			default:
				return nil
			}
		})
		b.send(asynq.NewTask("chat", nil), asynq.TaskID("chat-1"), asynq.MaxRetry(3), asynq.Retention(time.Hour))
		if e := receive(t, b.blocks); e.Err != nil || e.Blocked != 100*time.Millisecond {
			t.Errorf("block %+v", e)
		}
		if done := b.info("chat-1", asynq.TaskStateCompleted); done.Retried != 0 {
			t.Errorf("retried %d times", done.Retried)
		}
		b.send(asynq.NewTask("mail:send", nil), asynq.TaskID("mail-1"), asynq.MaxRetry(1))
		if retry := b.info("mail-1", asynq.TaskStateRetry); retry.Retried != 0 ||
			(time.Until(retry.NextProcessAt)-time.Hour).Abs() > 2*time.Second {
			t.Errorf("an unlimited task: %+v", retry)
		}
		sent := time.Now()
		b.send(asynq.NewTask("mail:send", nil), asynq.TaskID("mail-2"), asynq.MaxRetry(0)) // asynq alone would archive it
		if waits := b.info("mail-2", asynq.TaskStateRetry); waits.NextProcessAt.Before(sent.Add(time.Hour-time.Second)) ||
			waits.Retried != 0 {
			t.Errorf("it waits as %+v", waits)
		}
	})
}
