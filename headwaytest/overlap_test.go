package headwaytest_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/worker"
)

// outage is a plan of faults that leave no way to start a task from a minute after the beginning until an end.
type outage struct {
	name string
	plan func(f *headwaytest.Fleet)
	ends time.Duration // since the beginning
}

func outages() []outage {
	return []outage{
		{"a short outage in a long one", func(f *headwaytest.Fleet) {
			f.Redis.Down(6 * time.Minute)
			f.Run(time.Second)
			f.Redis.Down(time.Second)
		}, 7 * time.Minute},
		{"down while it hangs", func(f *headwaytest.Fleet) {
			f.Redis.Hang(3 * time.Minute)
			f.Run(time.Minute)
			f.Redis.Down(6 * time.Minute)
		}, 8 * time.Minute},
		{"hangs while it is down", func(f *headwaytest.Fleet) {
			f.Redis.Down(3 * time.Minute)
			f.Run(time.Minute)
			f.Redis.Hang(6 * time.Minute)
		}, 8 * time.Minute},
		{"cut off while Redis is down", func(f *headwaytest.Fleet) {
			f.Redis.Down(6 * time.Minute)
			f.Worker(0).CutOff(time.Second)
		}, 7 * time.Minute},
		{"restart while Redis is down", func(f *headwaytest.Fleet) {
			f.Redis.Down(6 * time.Minute)
			restart(f, 0, 1)
		}, 7 * time.Minute},
		{"restart while Redis and the store hang", func(f *headwaytest.Fleet) {
			f.Redis.Hang(6 * time.Minute)
			f.Store.Hang(6 * time.Minute)
			restart(f, 0, 1)
		}, 7 * time.Minute},
		{"restart while the store is down", func(f *headwaytest.Fleet) {
			f.Store.Down(6 * time.Minute)
			restart(f, 0, 1)
		}, 7 * time.Minute},
		{"restart while cut off", func(f *headwaytest.Fleet) {
			f.Worker(0).CutOff(6 * time.Minute)
			f.Worker(1).CutOff(6 * time.Minute)
			restart(f, 0, 1)
		}, 7 * time.Minute},
		{"workers that are new", func(f *headwaytest.Fleet) {
			f.Store.Down(6 * time.Minute)
			api := f.Provider("other", headwaytest.Provider{Meters: perSecond(1, 1).Meters})
			f.Workers(1, func(w *worker.Worker) { calls(api)(w) })
		}, 7 * time.Minute},
	}
}

// restart kills workers, and starts them again.
func restart(f *headwaytest.Fleet, numbers ...int) {
	for _, n := range numbers {
		f.Worker(n).Kill()
	}
	f.Run(time.Minute)
	for _, n := range numbers {
		f.Restart(n)
	}
}

// While any fault cuts a process off, it starts nothing, whatever other faults end, and whenever it was started.
func TestOverlappingFaults(t *testing.T) {
	t.Parallel()
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			headwaytest.Run(t, func(f *headwaytest.Fleet) {
				f.Workers(2, calls(f.Provider("api", headwaytest.Provider{})))
				f.Backlog(100, one)
				f.Run(time.Minute)
				o.plan(f)
				f.Run(o.ends - time.Second - f.Elapsed())
				if r := f.Report(); r.LastStart > 61*time.Second || r.Left == 0 {
					t.Errorf("want no start in the outage: %v", r)
				}
				f.Drain(20 * time.Minute)
				if r := f.Report(); r.Done != 100 || r.Lost > 0 || r.Violations > 0 || r.LastStart < o.ends {
					t.Errorf("want all tasks done after the outage: %v", r)
				}
			}, headwaytest.Limits(perSecond(.5, 1)))
		})
	}
}
