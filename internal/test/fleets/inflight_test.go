package fleets_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// slots is the largest number of calls in flight.
const slots = 10

func flight(n int) tasks.Args { return call{N: n, InFlight: true} }

// slow is an API that allows that many calls in flight.
func slow(calls int, least, most time.Duration) world {
	return world{
		limits: []reservations.Limit{limit(reservations.InFlight(slots))},
		provider: headwaytest.Provider{
			Latency: headwaytest.Between(least, most), Meters: []reservations.Meter{reservations.InFlight(calls)},
		},
	}
}

// full returns how long after a time all slots are used.
func (f *fleet) full(after time.Time) time.Duration {
	f.t.Helper()
	for ; ; f.Run(50 * time.Millisecond) {
		running := 0
		for _, m := range f.made() {
			if m.end.IsZero() {
				running++
			}
		}
		if running == slots {
			return time.Since(after) //gate:ok called in a bubble
		}
		if time.Since(after) > patience { //gate:ok called in a bubble
			f.t.Fatalf("only %d slots are used", running)
		}
	}
}

// Two of three workers are killed. Their slots are free again within 30 seconds, and there is never one call too many.
func TestCallsInFlightKilled(t *testing.T) {
	in(t, slow(slots, 50*time.Millisecond, 5*time.Second), func(f *fleet) {
		const count = 200
		f.Backlog(count, flight)
		f.start(size)
		f.await(count / 4)
		first, killed := f.first(1).Add(time.Second), time.Now()
		f.kill(0)
		f.kill(1)
		f.Run(5 * time.Second) // all calls of killed workers have ended at the API
		back := f.full(killed)
		from := time.Now()
		f.await(170)
		to := time.Now()
		_, before, _ := f.callsIn(first, killed)
		_, after, _ := f.callsIn(from, to)
		r := f.end(count)
		before /= slots * killed.Sub(first).Seconds()
		after /= slots * to.Sub(from).Seconds()
		t.Logf("all slots used again after %v; used %.2f %% before, %.2f %% after in %v; last start %v",
			back, 100*before, 100*after, to.Sub(from), r.LastStart)
		if back > 30*time.Second || before < .98 || after < .98 {
			t.Errorf("all slots were used again after %v; used %.2f %% before, %.2f %% after", back, 100*before, 100*after)
		}
	})
}

// The store is down for longer than leases last. The calls end before other tasks get their slots, and their tasks run
// again with no retry used.
func TestCallsInFlightStoreAway(t *testing.T) {
	in(t, slow(slots, 24*time.Second, 27*time.Second), func(f *fleet) {
		const count = 2 * slots
		f.Backlog(count, flight)
		f.start(size)
		f.full(time.Now())
		f.Store.Down(32 * time.Second)
		f.Run(20*time.Second + 10*time.Millisecond)
		for _, m := range f.made() {
			if m.end.IsZero() {
				t.Errorf("call of task %s runs although its lease can't have been renewed", m.task)
			}
		}
		f.end(count)
		calls := map[string]int{}
		for _, m := range f.made() {
			if calls[m.task]++; m.attempt > 1 {
				t.Errorf("task %s has used a retry", m.task)
			}
		}
		repeated := 0
		for _, n := range calls {
			if n == 2 {
				repeated++
			}
		}
		if repeated != slots || len(f.made()) != count+slots {
			t.Errorf("%d tasks had a second call, wanted the %d that ran; %d calls", repeated, slots, len(f.made()))
		}
	})
}

// The store is away for less than leases last, three times during each call. All calls go on to their ends.
func TestCallsInFlightKeptWhileStoreIsAway(t *testing.T) {
	in(t, slow(slots, 58*time.Second, 60*time.Second), func(f *fleet) {
		const count = 3 * slots
		f.Backlog(count, flight)
		f.start(size)
		f.full(time.Now())
		for n := range 9 {
			if at := f.Elapsed() + time.Duration(n)*20*time.Second; n%2 == 0 {
				f.At(at, func() { f.Store.Down(14 * time.Second) })
			} else {
				f.At(at, func() { f.Store.Hang(12 * time.Second) })
			}
		}
		r := f.end(count)
		f.wantOnce()
		if r.LastStart > 150*time.Second {
			t.Errorf("want the last start within 2m30s: %v", r)
		}
	})
}

// A running fleet follows a changed number of calls: with fewer, none starts until enough have ended.
func TestCallsInFlightSet(t *testing.T) {
	const most = 15
	in(t, slow(most, 500*time.Millisecond, 2*time.Second), func(f *fleet) {
		const count = 360
		f.Backlog(count, flight)
		f.start(size)
		f.await(10)
		for _, calls := range []int{3, most, 1, slots} {
			f.override(reservations.Override{Limit: "api", Meter: reservations.MeterInFlight, Capacity: float64(calls)})
			if calls == slots {
				f.override()
			}
			f.Run(followed + 2*time.Second) // the calls that ran when the fleet followed have ended
			from := time.Now()
			f.Run(7 * time.Second)
			_, ran, ranMost := f.callsIn(from, time.Now())
			used := ran / float64(calls) / time.Since(from).Seconds()
			least := .95
			if calls < 5 { // of few calls at once, the pause after each counts for more
				least = .9
			}
			t.Logf("%d calls set: at most %d at once, %.2f %% used", calls, ranMost, 100*used)
			if ranMost != calls || used < least {
				t.Errorf("%d calls set: %d ran at once, %.2f %% of the slots were used", calls, ranMost, 100*used)
			}
		}
		f.end(count)
		f.wantOnce()
	})
}
