package fleets_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// All workers are killed, and started again 15 s later. Their tasks come back after the leases of asynq. The others
// start in order.
func TestOrderAfterKill(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const count = 300
		f.Backlog(count, numbered)
		f.start(size)
		f.await(count / 3)
		for n := range size {
			f.kill(n)
		}
		held := f.active()
		before := map[string]bool{}
		for _, m := range f.made() {
			before[m.task] = true
		}
		for id := range held {
			before[id] = true
		}
		f.Run(15 * time.Second)
		for n := range size {
			f.Restart(n)
		}
		r := f.end(count)
		f.wantDeliveries(r, 2.05)
		f.wantInOrder(10, held)
		f.wantInOrder(10, before)
		repeated := 0
		for _, m := range f.made() {
			if m.attempt > 1 {
				repeated++
			}
		}
		if repeated > len(held) {
			t.Errorf("%d tasks have used a retry, and %d were held", repeated, len(held))
		}
		t.Logf("%d tasks were held, %d of them started twice; %.3f deliveries", len(held), repeated, r.Deliveries)
	})
}

// The store of the buckets does not answer for 8 s: nothing starts meanwhile, and then all goes on in order.
func TestOrderAfterStoreAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		away func(*fleet, time.Duration)
	}{
		{"down", func(f *fleet, d time.Duration) { f.Store.Down(d) }},
		{"hangs", func(f *fleet, d time.Duration) { f.Store.Hang(d) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
				const count, away = 300, 8 * time.Second
				f.Backlog(count, numbered)
				f.start(size)
				f.await(count / 3)
				began := time.Now()
				c.away(f, away)
				f.Run(away)
				back := time.Now()
				r := f.end(count)
				f.wantOnce()
				f.wantInOrder(10, nil)
				// What was granted before may still hold.
				if n, _, _ := f.callsIn(began.Add(hold), back); n > 0 {
					t.Errorf("%d calls began while the store was away", n)
				}
				lost := f.first(count).Sub(f.first(1)) - away - 29500*time.Millisecond
				t.Logf("beyond the time away, %v of the limit were not used; %.2f deliveries", lost, r.Deliveries)
				// A task that asked in vain asks again after a pause of at most the time that the store was away.
				if lost > away+4*time.Second {
					t.Errorf("the fleet needed %v to go on", lost)
				}
			})
		})
	}
}

// hold is the longest time from the decision of a bucket until the call.
const hold = 250 * time.Millisecond

// Two of four batches are cancelled while all wait: the first, and one from the middle. The others start sooner and in
// order, and the limit is used as before.
func TestOrderAfterCancel(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const each = 100
		f.start(size)
		f.Run(3 * time.Second)
		for batch := range 4 {
			f.Backlog(each, func(n int) tasks.Args { return call{N: batch*each + n, Flow: "all"} })
		}
		f.await(50)
		var ids []string
		for _, batch := range []int{0, 2} {
			for n := range each {
				ids = append(ids, fmt.Sprintf("t%05d", batch*each+n))
			}
		}
		gone, err := f.Scheduler().Delete(f.Context(), envelope.QueueDefault, ids...)
		if err != nil {
			t.Fatal(err)
		}
		withdrawn := 0
		for _, task := range gone {
			if task != nil {
				withdrawn++
			}
		}
		t.Logf("%d tasks taken back at %v", withdrawn, f.Elapsed())
		const left = 4 * each
		f.Drain(time.Minute)
		r := f.Report()
		if withdrawn < 2*each-60 || r.Done != left-withdrawn || r.Violations > 0 || r.Failed > 0 {
			t.Errorf("%d tasks taken back: %v", withdrawn, r)
		}
		f.wantOnce()
		f.wantInOrder(10, nil)
		f.wantDeliveries(r, 1.1)
		took := f.first(r.Done).Sub(f.first(1)).Seconds()
		if least := float64(r.Done-5) / 10; took > least*1.01 {
			t.Errorf("the others needed %.2f s, and the limit allows %.2f s", took, least)
		}
	})
}

// The most of a batch is cancelled while all of its tasks wait. Others wait only for the rest: nothing is left of the
// reservations of the cancelled tasks.
func TestNothingIsReservedForCancelledTasks(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const many, rest = 600, 50
		f.start(size)
		f.Backlog(many, numbered)
		f.await(rest)
		var ids []string
		for n := range many - rest {
			ids = append(ids, numbered(n).(call).TaskOptions().ID)
		}
		if _, err := f.Scheduler().Delete(f.Context(), envelope.QueueDefault, ids...); err != nil {
			t.Fatal(err)
		}
		other, err := f.Worker(0).Limiter.Allow(f.Context(), numbered(0).(call).Charges()...)
		if err != nil || other.Started() {
			t.Fatalf("a call of another program started: %v", err)
		}
		wait := time.Until(other.Outcomes()[0].RetryAt)
		t.Logf("another program may call in %v", wait)
		if least := (rest - 5) * time.Second / 10; wait < least-time.Second || wait > least+3*time.Second {
			t.Errorf("another program may call in %v, and the other tasks need %v", wait, least)
		}
		f.Run(wait + 3*time.Second) // a call takes up to 1.5 s
		if r := f.Report(); r.Violations > 0 || r.Done < rest || len(f.made()) != r.Done {
			t.Errorf("of the %d other tasks some are left: %v", rest, r)
		}
	})
}
