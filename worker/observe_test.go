package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// left returns an observation of the meter tokens, and of a meter that no charge names.
func left(n float64) reservations.Observation {
	return reservations.Observation{Remaining: reservations.Tokens{"tokens": n, "pages": 3}, Age: time.Hour}
}

func TestBucketFollowsObservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			seen := left(50)
			job.Observe(seen)
			seen.Remaining["tokens"] = 1 // the caller may change the map
			<-time.After(10 * time.Second)
			return nil
		})
		info := b.enqueue(call{Cost: 10})
		s := receive(t, b.syncs)
		if s.Task.ID != info.ID || s.Charge.Limit != "api" || s.Err != nil || s.Seen.Up {
			t.Errorf("%+v", s)
		}
		if diff := cmp.Diff(reservations.Tokens{"tokens": 50}, s.Seen.Remaining); diff != "" {
			t.Error(diff)
		}
		if s.Seen.Age != time.Hour+10*time.Second {
			t.Errorf("age %v", s.Seen.Age)
		}
	})
}

// A correction before the settlement would refund tokens twice: by the provider's answer and by the settlement.
func TestCorrectionAfterTheSettlement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			b.store.set(func(s *faultStore) { s.down = true })
			job.Observe(left(50))
			job.Use(reservations.Tokens{"tokens": 3})
			return errUpstream // a failure reports too
		})
		b.enqueue(call{Cost: 10})
		receive(t, b.finishes)
		if len(b.syncs) != 0 {
			t.Error("corrected during the settlement")
		}
		<-time.After(time.Minute)
		b.store.set(func(s *faultStore) { s.down = false })
		s := receive(t, b.syncs)
		if len(b.settlements) != 1 {
			t.Error("corrected before the settlement was applied")
		}
		if s.Seen.Age < time.Hour+time.Minute {
			t.Errorf("age %v", s.Seen.Age)
		}
	})
}

func TestOnlyLowerObservationsCorrect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			for _, n := range []float64{50, 60, 40, 40} {
				job.Observe(left(n))
			}
			return nil
		})
		b.start(w)
		for i := range 2 { // after a second, a bucket is corrected by any observation
			b.enqueue(call{N: i, Cost: 10})
			receive(t, b.finishes)
		}
		if err := w.Stop(t.Context()); err != nil { // waits for corrections
			t.Fatal(err)
		}
		var got []float64
		for len(b.syncs) > 0 {
			got = append(got, receive(t, b.syncs).Seen.Remaining["tokens"])
		}
		if !slices.Equal(got, []float64{50, 40}) {
			t.Errorf("corrected to %v, want 50 and 40", got)
		}
	})
}

func TestUselessObservationsAreNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reservations.Limit{Name: "api", Meters: []reservations.Meter{reservations.PerSecond("tokens", 100)}})
		w := b.worker(worker.Config{})
		refused := true
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			switch job.Args.N {
			case 0: // a meter without a charge
				job.Observe(reservations.Observation{Remaining: reservations.Tokens{"pages": 3}})
			case 1: // the block is stronger
				job.Observe(left(1))
				if refused {
					refused = false
					return reservations.RetryAfter(time.Millisecond, errUpstream)
				}
			}
			return nil
		})
		worker.Handle(w, func(_ context.Context, job *worker.Job[free]) error {
			job.Observe(left(1))
			return nil
		})
		b.start(w)
		b.enqueue(call{N: 0, Cost: 1})
		b.enqueue(free{})
		receive(t, b.finishes)
		receive(t, b.finishes)
		b.enqueue(call{N: 1, Cost: 1})
		if f := receive(t, b.finishes); f.Kind != worker.KindRefused {
			t.Fatalf("%+v", f)
		}
		receive(t, b.finishes)
		receive(t, b.syncs) // from the second attempt
		if len(b.syncs) != 0 {
			t.Errorf("told: %+v", <-b.syncs)
		}
	})
}

func TestAdoptedServerSendsObservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		worker.Observe(t.Context(), left(1)) // no effect outside of a handler
		b.adopt(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
			worker.Observe(ctx, left(50))
			return nil
		})
		b.send(asynq.NewTask("chat", nil))
		if s := receive(t, b.syncs); s.Seen.Remaining["tokens"] != 50 || s.Task.Type != "chat" {
			t.Errorf("%+v", s)
		}
	})
}

var errBroken = errors.New("broken")

func TestPanicInHookOfSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		called := make(chan struct{}, 1)
		onSync := only(worker.KindSynced, func(worker.Event) {
			called <- struct{}{}
			panic(errBroken)
		})
		w, err := worker.New(b.client, b.limiter, worker.Config{
			Logger: slog.New(slog.DiscardHandler), Events: []func(worker.Event){onSync},
		})
		if err != nil {
			t.Fatal(err)
		}
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			job.Observe(left(1))
			return nil
		})
		b.start(w)
		b.enqueue(call{Cost: 1})
		receive(t, called)
	})
}
