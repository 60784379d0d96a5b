package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// hot returns a limit with four shards of 5 tokens and 25 a second each.
func hot() reservations.Limit {
	return reservations.Limit{Name: "api", Shards: 4, Meters: []reservations.Meter{
		{Name: "tokens", Rate: 100, Period: time.Second, Capacity: 20},
	}}
}

// Tasks of a limit with shards start, wait and settle in one shard.
func TestShardedLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, hot())
		b.run(func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"tokens": 1})
			return nil
		})
		var err error
		if b.scheduler, err = scheduler.New(b.client, b.limiter, scheduler.Config{}); err != nil {
			t.Fatal(err)
		}
		const n = 60
		for i := range n {
			b.enqueue(call{N: i, Cost: 2})
		}
		shards := map[int]int{}
		for range n {
			s := receive(t, b.starts)
			shards[s.Charges[0].Shard]++
			if s.Outcome.Charge.Shard != s.Charges[0].Shard {
				t.Errorf("charge %+v, outcome %+v", s.Charges, s.Outcome)
			}
		}
		for range n {
			if s := receive(t, b.settlements); s.Err != nil || s.Outcome.Charge.Shard != s.Charge.Shard {
				t.Errorf("%+v", s)
			}
		}
		if len(shards) != 4 || shards[0] != 0 {
			t.Errorf("the starts by shard are %v", shards)
		}
	})
}

// A refusal by the provider stops all shards.
func TestShardedLimitIsBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, hot())
		refused := false
		b.run(func(context.Context, *worker.Job[call]) error {
			if refused {
				return nil
			}
			refused = true
			return reservations.RetryAfter(time.Second, context.DeadlineExceeded)
		})
		b.enqueue(call{Cost: 1})
		block := receive(t, b.blocks)
		if block.Err != nil || block.Outcome.Charge.Shard != block.Charge.Shard {
			t.Fatalf("%+v", block)
		}
		for shard := 1; shard <= 4; shard++ {
			c := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"tokens": 1}}
			c.Shard = shard
			o, err := inside.Of(b.limiter).Check(t.Context(), c)
			if err != nil || o.Started() && o.At.Before(block.Outcome.At.Add(time.Second)) {
				t.Errorf("shard %d: %+v, %v", shard, o, err)
			}
		}
		first, again := receive(t, b.starts), receive(t, b.starts)
		if again.Charges[0].Shard != first.Charges[0].Shard || !again.Waited {
			t.Errorf("the task starts again as %+v", again)
		}
	})
}

// A waiting task is served even if an override makes the capacity smaller than its charge.
func TestOverrideCostsNoTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := slow(10)
		limit.Meters[0].MaxReserved = reservations.None
		b, source := setup(t, limit), &list{}
		w, _ := b.following(source)
		b.start(w)
		b.enqueue(call{Cost: 10})
		receive(t, b.starts)
		b.enqueue(call{Cost: 10})
		receive(t, b.deferrals)
		source.set(nil, reservations.Override{Limit: "api", Meter: "tokens", Rate: 2, Period: 50 * time.Millisecond})
		eventually(t, "the override", func() bool { return b.rateOf("") == 2 })
		for {
			if s := receive(t, b.starts); s.Charges[0].Tokens["tokens"] == 10 {
				break
			}
		}
		if len(b.refusals) > 0 {
			t.Errorf("refused: %+v", <-b.refusals)
		}
	})
}

// The observation of one task corrects all shards. Equal observations of other shards within a second correct none.
func TestShardsAreCorrectedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := slow(80)
		l.Shards = 4
		b := setup(t, l)
		w := b.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			job.Observe(left(50))
			return nil
		})
		b.start(w)
		const n = 16
		for i := range n {
			b.enqueue(call{N: i, Cost: 1})
		}
		shards := map[int]bool{}
		for range n {
			shards[receive(t, b.finishes).Charges[0].Shard] = true
		}
		if err := w.Stop(t.Context()); err != nil { // waits for corrections
			t.Fatal(err)
		}
		if len(shards) < 3 || len(b.syncs) != 1 {
			t.Errorf("tasks of %d shards corrected the bucket %d times, want once", len(shards), len(b.syncs))
		}
	})
}
