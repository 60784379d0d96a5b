package fleets_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// ticks returns the times of the ticks of a schedule that have started, by the IDs of their tasks. Each started once.
func (f *fleet) ticks(name string) []time.Time {
	f.t.Helper()
	started := map[time.Time]int{}
	for _, m := range f.made() {
		if text, ours := strings.CutPrefix(m.task, name+"@"); ours {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				f.t.Fatalf("task %q is no tick: %v", m.task, err)
			}
			if started[at]++; started[at] > 1 {
				f.t.Errorf("tick %v of %s started %d times", at, name, started[at])
			}
			if m.at.Before(at) {
				f.t.Errorf("tick %v of %s started at %v", at, name, m.at)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(started), time.Time.Compare)
}

// recurring is a config with schedules of calls. Their tasks are in a queue that this worker may not serve.
func recurring(queues map[string]int, all ...scheduler.Recurring) worker.Config {
	for i := range all {
		all[i].Args = tick{}
		all[i].Options.Queue = "ticks"
	}
	return worker.Config{Queues: queues, Scheduler: scheduler.Config{Recurring: all}}
}

// tick is a call without an ID, which its schedule gives.
type tick struct{}

func (tick) TaskType() string { return "call" }
func (tick) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}}
}

// Three workers enqueue a tick every two seconds. Twelve times one of them is killed, before, at and after a tick.
// Another worker, which stays, runs the tasks: each tick starts exactly once, and none is left out.
func TestTicksOnceWhenEnqueuersAreKilled(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		every := scheduler.Recurring{Name: "tick", Spec: "@every 2s"}
		f.start(size, recurring(map[string]int{"other": 1}, every))
		f.start(1, recurring(map[string]int{"ticks": 1})) // it runs the tasks, and stays
		for n := range 12 {
			// The kill comes before, at and after a tick.
			f.Run(2*time.Second + time.Duration(n%5-2)*300*time.Millisecond)
			f.Run(time.Until(time.Now().Truncate(2 * time.Second).Add(2*time.Second + time.Duration(n%3-1)*time.Microsecond)))
			f.kill(n % size)
			f.Run(500 * time.Millisecond)
			f.Restart(n % size)
		}
		f.Run(time.Until(time.Now().Truncate(2*time.Second)) + 21*time.Second) // a second after a tick
		all := f.ticks("tick")
		want := int(time.Since(all[0])/(2*time.Second)) + 1
		t.Logf("%d ticks of %d", len(all), want)
		if len(all) != want || len(all) < 15 {
			t.Errorf("%d ticks started, wanted %d", len(all), want)
		}
		if r := f.Report(); r.Violations > 0 || r.Lost > 0 {
			t.Error(r)
		}
	})
}

// The messages of one of two enqueuers take longer than a tick and its task. When they arrive, nothing is left of the
// task: the tick is not enqueued again.
func TestTicksOnceBesideASlowEnqueuer(t *testing.T) {
	quick := headwaytest.Provider{Latency: headwaytest.Between(time.Millisecond, 100*time.Millisecond)}
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: quick}, func(f *fleet) {
		every := scheduler.Recurring{Name: "tick", Spec: "@every 2s"}
		f.start(2, recurring(map[string]int{"other": 1}, every))
		f.start(1, recurring(map[string]int{"ticks": 1}))
		f.Run(5 * time.Second)
		for n := range 10 { // such that messages arrive before, at and after a tick
			f.Worker(0).Slow(time.Duration(500+100*n)*time.Millisecond, 2*time.Second)
			f.Run(2 * time.Second)
		}
		f.Run(20 * time.Second)
		if all := f.ticks("tick"); len(all) < 20 {
			t.Errorf("%d ticks started", len(all))
		}
	})
}

// Clocks in Berlin change while a worker ticks: a tick at 02:30 is left out in spring, and comes once in autumn. An
// hourly one comes once in each hour, and an interval does not notice. Then the fleet is down until the evening: of
// each schedule the last missed tick starts late, once.
func TestRecurringOverADaylightSavingChange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		day    time.Time
		until  int // local hour at which the fleet stops
		hourly int // ticks until then, and the two of the evening
		nights []string
	}{
		{"spring", time.Date(2026, time.March, 29, 0, 50, 0, 0, berlin), 4, 3 + 2, nil},
		{"autumn", time.Date(2026, time.October, 25, 0, 50, 0, 0, berlin), 4, 4 + 1 + 2, []string{"00:30"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, world{
				limits: []reservations.Limit{requestsOnly}, provider: usual,
				options: []headwaytest.Option{headwaytest.Begin(c.day)},
			}, func(f *fleet) {
				at := func(hour, minute int) {
					f.Run(time.Until(time.Date(c.day.Year(), c.day.Month(), c.day.Day(), hour, minute, 0, 0, berlin)))
				}
				f.start(1, recurring(map[string]int{"ticks": 1},
					scheduler.Recurring{Name: "hourly", Spec: "0 * * * *", Zone: "Europe/Berlin"},
					scheduler.Recurring{Name: "night", Spec: "30 2 * * *", Zone: "Europe/Berlin"},
					scheduler.Recurring{Name: "noon", Spec: "0 12 * * *", Zone: "Europe/Berlin"},
					scheduler.Recurring{Name: "soon", Spec: "30 12 * * *", Zone: "Europe/Berlin", StartWithin: time.Hour},
					scheduler.Recurring{Name: "interval", Spec: "@every 20m"}))
				at(c.until, 10)
				f.Worker(0).Stop()
				changed := f.ticks("interval")
				at(22, 50)
				f.Restart(0)
				at(23, 10)
				var nights []string
				for _, night := range f.ticks("night") {
					nights = append(nights, night.UTC().Format("15:04"))
				}
				hourly, noon, soon, interval := f.ticks("hourly"), f.ticks("noon"), f.ticks("soon"), f.ticks("interval")
				for i, tick := range changed[1:] {
					if tick.Sub(changed[i]) != 20*time.Minute {
						t.Errorf("intervals at %v", changed)
					}
				}
				if !slices.Equal(nights, c.nights) || len(hourly) != c.hourly || len(noon) != 1 || len(soon) != 0 ||
					len(interval) != len(changed)+2 {
					t.Errorf("hourly %v, nights %v, noon %v, soon %v, intervals %v", hourly, nights, noon, soon, interval)
				}
			})
		})
	}
}
