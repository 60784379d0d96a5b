package fleets_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// The API refuses 7 % of the calls for 3 s, answers 5 % with a 503, and drops the connection of 2 %. All tasks are done
// in the end, no call comes within a block, and the limit is used outside of blocks.
func TestTroubledProvider(t *testing.T) {
	api := usual
	api.Refuse, api.RetryAfter, api.Fail, api.Drop = .07, 3*time.Second, .05, .02
	in(t, world{limits: []reservations.Limit{limit(perSecond(20, 5))}, provider: api}, func(f *fleet) {
		const count = 200
		f.start(size)
		f.Backlog(count, numbered)
		r := f.end(count)
		f.wantUse(r, .8)
		if p := r.Providers["api"]; p.Refused < count/40 || p.Failed < count/40 {
			t.Errorf("%d refusals and %d failures are too few", p.Refused, p.Failed)
		}
	})
}

// The API refuses one call for 5 seconds. The whole fleet stops, and then goes on in the old order. The refused task is
// the first.
func TestRefused(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const count, number, block = 300, 100, 5 * time.Second
		var at time.Time
		f.refuse = func(n int) time.Duration {
			if n != number {
				return 0
			}
			at = time.Now()
			return block
		}
		f.start(size)
		f.Backlog(count, numbered)
		r := f.end(count)
		f.wantOnce()
		// Another worker may have granted a call when the refusal came.
		early, _, _ := f.callsIn(at.Add(hold), at.Add(block))
		all := f.made()
		next := all[slices.IndexFunc(all, func(m made) bool { return m.at.After(at.Add(hold)) })]
		t.Logf("refused at %v; %d calls came within the block; it goes on %v after its end with %s", at, early,
			next.at.Sub(at.Add(block)), next.task)
		// The bucket is empty when the block ends. It owes at most the tokens of starts that held when the refusal came.
		// Then one token comes back, and the refusal and the answer travel.
		const most = block + hold + time.Second/10 + 2*300*time.Microsecond
		if at.IsZero() || early > 0 || next.at.Sub(at) > most {
			t.Errorf("%d calls came within the block of %v, and the next one after %v of %v", early, block, next.at.Sub(at),
				most)
		}
		f.wantInOrder(3, nil)
		f.wantDeliveries(r, 1.1)
	})
}

// The store is away for a minute, and the tasks of twelve tenants wait for it, each for a pause of its bucket. The
// first answer afterwards starts the tasks of all tenants.
func TestStoreIsBackForAllBuckets(t *testing.T) {
	tenants := reservations.Limit{Name: "tenants", Meters: []reservations.Meter{perSecond(1, 3)}}
	in(t, world{
		limits: []reservations.Limit{tenants, limit(perSecond(100, 100))}, provider: usual,
	}, func(f *fleet) {
		const keys, each, before = 12, 8, 2 * time.Second
		f.start(size)
		f.Backlog(keys*each, func(n int) tasks.Args { return call{N: n, Tenant: fmt.Sprint("tenant", n%keys)} })
		f.Run(before)
		f.Store.Down(time.Minute)
		f.Run(time.Minute)
		back := time.Now()
		f.end(keys * each)
		first := map[int]time.Time{} // by tenant
		for _, m := range f.made() {
			var n int
			if _, err := fmt.Sscanf(m.task, "t%d", &n); err != nil {
				t.Fatal(err)
			}
			if at, known := first[n%keys]; m.at.After(back) && (!known || m.at.Before(at)) {
				first[n%keys] = m.at
			}
		}
		all := slices.SortedFunc(maps.Values(first), time.Time.Compare)
		if len(all) != keys {
			t.Fatalf("%d tenants started a task after the outage", len(all))
		}
		t.Logf("tenants start %v to %v after the outage", all[0].Sub(back), all[keys-1].Sub(back))
		if spread := all[keys-1].Sub(all[0]); spread > 500*time.Millisecond {
			t.Errorf("a tenant waits %v longer than another one", spread)
		}
	})
}
