package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

func TestLowerChangesWhatIsChargedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep                          bool
		expect                        float64
		use                           float64 // negative: no report
		during, after                 float64 // the balance, from 100
		charged                       float64
		settlements, settlementsAfter int
	}{
		"less, and right": {
			expect: 30, use: 30, during: 70, after: 70, charged: 30, settlements: 1, settlementsAfter: 1,
		},
		"less, and not enough": {
			expect: 30, use: 50, during: 70, after: 50, charged: 30, settlements: 1, settlementsAfter: 1,
		},
		"less, and still too big": {
			expect: 30, use: 10, during: 70, after: 90, charged: 30, settlements: 1, settlementsAfter: 1,
		},
		"no report of usage": {expect: 30, use: -1, during: 70, after: 70, charged: 30, settlements: 1},
		"more":               {expect: 90, use: 50, during: 20, after: 50, charged: 80, settlementsAfter: 1},
		"nonsense":           {expect: math.NaN(), use: 50, during: 20, after: 50, charged: 80, settlementsAfter: 1},
		"the limit keeps":    {keep: true, expect: 30, use: 50, during: 20, after: 20, charged: 80, settlementsAfter: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limit := slow(100)
				if c.keep {
					limit.Settle = reservations.SettleKeep
				}
				b := setup(t, limit)
				charged, goOn := make(chan float64), make(chan struct{})
				b.run(func(_ context.Context, job *worker.Job[call]) error {
					before := job.Charges
					job.Lower(reservations.Tokens{"tokens": c.expect, "others": 1})
					job.Lower(reservations.Tokens{"tokens": 1}) // only the first call counts
					if before[0].Tokens["tokens"] != 80 {
						t.Error("the first charge was changed")
					}
					charged <- job.Charges[0].Tokens["tokens"]
					<-goOn
					if c.use >= 0 {
						job.Use(reservations.Tokens{"tokens": c.use})
					}
					return nil
				})
				info := b.enqueue(call{Cost: 80})
				if got := receive(t, charged); got != c.charged {
					t.Errorf("charged %v, want %v", got, c.charged)
				}
				for range c.settlements {
					receive(t, b.settlements)
				}
				if got := b.balance(); math.Abs(got-c.during) > 0.1 {
					t.Errorf("balance %v while it runs, want %v", got, c.during)
				}
				close(goOn)
				receive(t, b.finishes)
				for range c.settlementsAfter {
					receive(t, b.settlements)
				}
				if got := b.balance(); math.Abs(got-c.after) > 0.1 {
					t.Errorf("balance %v at the end, want %v", got, c.after)
				}
				b.gone(info.ID)
			})
		})
	}
}

// A task that made no call leaves no charge, also where the limit keeps estimates.
func TestATaskWithoutACallGivesAllBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := slow(100)
		limit.Settle = reservations.SettleKeep
		b := setup(t, limit)
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"tokens": 10})
			return fmt.Errorf("%w: %w", reservations.ErrNotCalled, errUpstream)
		})
		b.enqueue(call{Cost: 80})
		if f := receive(t, b.finishes); f.Used["tokens"] != 0 || !errors.Is(f.Err, errUpstream) {
			t.Errorf("%+v", f)
		}
		receive(t, b.settlements)
		if got := b.balance(); math.Abs(got-100) > 0.1 {
			t.Errorf("balance %v, want 100", got)
		}
	})
}

// Tokens that Lower returns while the store is down are refunded when it is back, and never twice.
func TestLowerWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			b.store.set(func(s *faultStore) { s.down = true })
			job.Lower(reservations.Tokens{"tokens": 30})
			job.Use(reservations.Tokens{"tokens": 40})
			return nil
		})
		b.enqueue(call{Cost: 80})
		receive(t, b.finishes)
		b.store.set(func(s *faultStore) { s.down = false })
		receive(t, b.settlements)
		receive(t, b.settlements)
		if got := b.balance(); math.Abs(got-60) > 0.1 {
			t.Errorf("balance %v, want 60", got)
		}
	})
}

func TestLowerOfATaskThatFailsAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			job.Lower(reservations.Tokens{"tokens": 10})
			if job.Attempt == 1 {
				return errUpstream
			}
			return nil
		})
		info := b.enqueue(call{Cost: 40})
		receive(t, b.finishes)
		receive(t, b.settlements)
		b.info(info.ID, asynq.TaskStateRetry)
		b.hurry(info.ID)
		receive(t, b.finishes)
		receive(t, b.settlements)
		if got := b.balance(); math.Abs(got-80) > 0.1 {
			t.Errorf("balance %v after two attempts of 10, want 80", got)
		}
	})
}

func TestLowerOfAnUnlimitedTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, job *worker.Job[free]) error {
			job.Lower(reservations.Tokens{"tokens": 10})
			return nil
		})
		b.start(w)
		info := b.enqueue(free{})
		if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || len(b.settlements) != 0 {
			t.Errorf("%+v, %d settlements", f, len(b.settlements))
		}
		b.gone(info.ID)
	})
}
