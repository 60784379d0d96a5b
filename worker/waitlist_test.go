package worker_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// backlog lets one task take all tokens of a bucket. Then n tasks wait; it returns their IDs in the order of arrival.
func (b *bundle) backlog(n int) []string {
	b.t.Helper()
	b.enqueue(call{Cost: 10})
	receive(b.t, b.starts)
	receive(b.t, b.finishes)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = b.enqueue(call{N: i, Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry}).ID
		if d := receive(b.t, b.deferrals); d.Task.ID != ids[i] {
			b.t.Fatalf("deferral %+v", d)
		}
	}
	return ids
}

// startsOf returns the IDs of the next n tasks that start.
func (b *bundle) startsOf(n int) []string {
	b.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = receive(b.t, b.starts).Task.ID
	}
	return ids
}

// A waiting task that is delivered without a promotion goes back to its place, and its bucket is not asked.
func TestDeliveredWithoutPromotion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(10))
		b.run(ok)
		ids := b.backlog(2)
		before := b.store.asks()
		for range 3 {
			for _, id := range ids {
				b.hurry(id)
				d := receive(t, b.deferrals)
				if d.Task.ID != id || d.Task.Attempt != 1 || !d.Outcome.At.IsZero() || time.Until(d.Until) < 9*time.Hour {
					t.Errorf("deferral %+v", d)
				}
				b.info(id, asynq.TaskStateRetry)
			}
		}
		if n := b.store.asks() - before; n != 0 {
			t.Errorf("the bucket was asked %d times", n)
		}
		if left := b.balance(); left < -0.1 || left > 0.1 {
			t.Errorf("balance %v, want 0", left)
		}
	})
}

// Waiting tasks start in the order of their arrival.
func TestStartsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 30
		b := setup(t, filling(50*time.Millisecond))
		if _, err := inside.Of(b.limiter).Block(t.Context(), call{}.Charges()[0], time.Hour); err != nil {
			t.Fatal(err)
		}
		w := b.worker(worker.Config{Concurrency: 1}) // tasks that are delivered at the same time may pass each other
		worker.Handle(w, ok)
		b.start(w)
		ids := make([]string, n)
		for i := range ids {
			ids[i] = b.enqueue(call{N: i, Cost: 10}).ID
		}
		for range n {
			receive(t, b.deferrals)
		}
		b.unblock(w)
		if got := b.startsOf(n); !slices.Equal(got, ids) {
			t.Errorf("order %v, want %v", got, ids)
		}
		if again := len(b.deferrals); again > 0 {
			t.Errorf("%d tasks were sent back again", again)
		}
	})
}

// unblock ends the block of the limit api.
func (b *bundle) unblock(w *worker.Worker) {
	b.t.Helper()
	outcomes, err := inside.Of(b.limiter).Unblock(b.t.Context(), "api", "")
	if err != nil {
		b.t.Fatal(err)
	}
	inside.Of(w.Scheduler()).Changed(outcomes[0])
}

// held enqueues a task that waits, is promoted, and then holds in its worker for an hour.
func (b *bundle) held(n int) string {
	b.t.Helper()
	before := b.store.begins()
	b.store.set(func(s *faultStore) { s.refuse, s.hold = 1, time.Hour })
	id := b.enqueue(call{N: n, Cost: 10}).ID
	eventually(b.t, "task "+id+" is promoted and held", func() bool { return b.store.begins() > before })
	return id
}

// Promoted tasks that hold in a stopping worker keep their places: a task that arrives later does not get their tokens.
func TestStoppedWhileHoldingKeepsThePlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		b.start(w)
		var ids []string
		for i := range 3 {
			ids = append(ids, b.held(i))
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(b.starts) != 0 {
			t.Fatalf("start %+v", receive(t, b.starts))
		}
		b.left("api", "", 100)
		b.store.set(func(s *faultStore) { s.hold = 0 })
		behind := b.enqueue(call{N: len(ids), Cost: 80}).ID // fits, but not beside the others
		next := b.worker(worker.Config{Concurrency: 1})
		worker.Handle(next, ok)
		b.start(next)
		got := b.startsOf(len(ids)) // asynq delivers them in any order
		slices.Sort(got)
		slices.Sort(ids)
		if !slices.Equal(got, ids) {
			t.Errorf("started %v, want %v", got, ids)
		}
		for receive(t, b.deferrals).Task.ID != behind {
		}
		b.left("api", "", 70)
	})
}

// A worker is killed while a promoted task holds. The tasks behind it go on, and the task runs once, after asynq
// finds that its lease has ended. The tokens of its start are lost.
func TestKilledWhileHolding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		client, wire := connect(t, b.server)
		doomed := b.through(client)
		worker.Handle(doomed, ok)
		if err := doomed.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Redis is down, so unsent reports are lost
		t.Cleanup(func() { _ = doomed.Stop(context.WithoutCancel(t.Context())) })
		held := b.held(1)
		wire.Set(network.Refuse) // for Redis the same as a kill
		b.store.set(func(s *faultStore) { s.hold = 0 })
		ended := float64(time.Now().Add(-time.Hour).Unix())
		if err := b.client.ZAdd(t.Context(), "asynq:{default}:lease", redis.Z{Score: ended, Member: held}).Err(); err != nil {
			t.Fatal(err)
		}
		behind := b.enqueue(call{N: 2, Cost: 10})
		b.run(ok)
		got := b.startsOf(2)
		slices.Sort(got)
		want := []string{held, behind.ID}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("started %v, want %v", got, want)
		}
		for range 2 {
			if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded {
				t.Errorf("finish %+v", f)
			}
		}
		b.gone(held)
		b.left("api", "", 70) // 10 are lost
		if len(b.starts) != 0 || b.waiting() != 0 {
			t.Errorf("%d more starts, %d tasks still wait", len(b.starts), b.waiting())
		}
	})
}

// through returns a worker that reaches Redis by the client.
func (b *bundle) through(client redis.UniversalClient) *worker.Worker {
	b.t.Helper()
	direct := b.client
	b.client = client
	defer func() { b.client = direct }()
	return b.worker(worker.Config{})
}

// Two tenants share a provider. Each task starts once, each tenant's tasks in order, and no faster than any limit
// allows.
func TestTenantsBelowAProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, tenantRate, providerRate, capacity = 40, 40., 50., 5.
		limit := func(name string, rate float64) reservations.Limit {
			return reservations.Limit{Name: name, Meters: []reservations.Meter{
				{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity},
			}}
		}
		b := setup(t, limit("tenant", tenantRate), limit("api", providerRate))
		w := b.worker(worker.Config{Concurrency: 1})
		worker.Handle(w, okBoth)
		b.start(w)
		want := map[string][]string{}
		for range each {
			for _, tenant := range []string{"a", "b"} {
				want[tenant] = append(want[tenant], b.enqueue(both{Tenant: tenant, Cost: 1}).ID)
			}
		}
		got := map[string][]string{}
		var at []time.Time
		for range 2 * each {
			s := receive(t, b.starts)
			tenant := s.Charges[0].Key
			got[tenant] = append(got[tenant], s.Task.ID)
			at = append(at, s.Outcome.At.Add(s.Outcome.Hold))
		}
		for tenant, ids := range want {
			if !slices.Equal(got[tenant], ids) {
				t.Errorf("tenant %s: order %v, want %v", tenant, got[tenant], ids)
			}
		}
		for i := range at {
			within, _ := slices.BinarySearchFunc(at[i:], at[i].Add(time.Second), time.Time.Compare)
			if float64(within) > capacity+providerRate+1 {
				t.Errorf("%d starts within a second", within)
			}
		}
		deliveries := 1 + float64(len(b.deferrals))/(2*each)
		if len(b.deferrals) > 2*(2*each)+each/10 {
			t.Errorf("%.2f deliveries a task", deliveries)
		}
		t.Logf("%.2f deliveries a task, %v from first to last start", deliveries, at[len(at)-1].Sub(at[0]))
	})
}
