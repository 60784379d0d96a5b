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
			if late := m.at.Sub(at); late < 0 || late > time.Second {
				f.t.Logf("tick %v of %s started %v late", at, name, late)
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

// Workers enqueue a tick every two seconds. The dispatcher, and with it an enqueuer of ticks, is killed ten times, and so
// is another one. Each tick starts exactly once, and none is left out.
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
			f.Restart(n % size)
		}
		f.Run(5 * time.Second)
		all := f.ticks("tick")
		want := int(all[len(all)-1].Sub(all[0])/(2*time.Second)) + 1
		t.Logf("%d ticks of %d", len(all), want)
		if len(all) != want || len(all) < 15 {
			t.Errorf("%d ticks started, wanted %d", len(all), want)
		}
		if r := f.Report(); r.Violations > 0 || r.Lost > 0 {
			t.Error(r)
		}
	})
}

// A day of 23 and a day of 25 hours in Berlin: a tick at 02:30 is skipped in spring and comes once in autumn, an hourly
// one comes once in each hour, and an interval does not notice.
func TestRecurringOverADaylightSavingChange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		day    time.Time
		hours  int
		nights []string // in UTC
	}{
		{"spring", time.Date(2026, time.March, 29, 0, 0, 0, 0, berlin), 23, nil},
		{"autumn", time.Date(2026, time.October, 25, 0, 0, 0, 0, berlin), 25, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, world{
				limits: []reservations.Limit{requestsOnly}, provider: usual,
				options: []headwaytest.Option{headwaytest.Begin(c.day.Add(-30 * time.Second))},
			}, func(f *fleet) {
				f.start(1, recurring(map[string]int{"ticks": 1},
					scheduler.Recurring{Name: "hourly", Spec: "0 * * * *", Zone: "Europe/Berlin"},
					scheduler.Recurring{Name: "night", Spec: "30 2 * * *", Zone: "Europe/Berlin"},
					scheduler.Recurring{Name: "noon", Spec: "0 12 * * *", Zone: "Europe/Berlin"},
					scheduler.Recurring{Name: "interval", Spec: "@every 20m"}))
				f.Run(c.day.AddDate(0, 0, 1).Sub(c.day))
				t.Logf("hourly %v, night %v, noon %v", f.ticks("hourly"), f.ticks("night"), f.ticks("noon"))
				t.Log(f.Report())
			})
		})
	}
}
