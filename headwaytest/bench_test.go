package headwaytest_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
)

// BenchmarkHour is an hour of three workers with 10 calls a second: 34 000 calls arrive at random times, 95 % of the
// limit. Run it with -benchtime 1x.
func BenchmarkHour(b *testing.B) {
	play(b, time.Hour, func(f *headwaytest.Fleet) {
		f.Workers(3, calls(f.Provider("api", headwaytest.Provider{
			Latency: headwaytest.Between(50*time.Millisecond, 400*time.Millisecond),
		})))
		f.Arrive(9.5, one)
		f.Run(time.Hour)
		f.Drain(time.Minute)
	})
}

// BenchmarkIdleDay is a day of three workers without a task. Run it with -benchtime 1x.
func BenchmarkIdleDay(b *testing.B) {
	play(b, 24*time.Hour, func(f *headwaytest.Fleet) {
		f.Workers(3, calls(f.Provider("api", headwaytest.Provider{})))
		f.Run(24 * time.Hour)
	})
}

// play measures the CPU time of a fleet that runs for a time. A bubble needs a *testing.T, so each run is a test.
func play(b *testing.B, lasts time.Duration, do func(f *headwaytest.Fleet)) {
	b.Helper()
	var r headwaytest.Report
	began := cpuTime(b)
	run := testing.InternalTest{Name: b.Name(), F: func(t *testing.T) {
		t.Helper()
		headwaytest.Run(t, func(f *headwaytest.Fleet) {
			do(f)
			if r = f.Report(); r.Violations > 0 || r.Lost > 0 || r.Done != r.Tasks {
				t.Error(r)
			}
		}, headwaytest.Limits(perSecond(10, 10)))
	}}
	every := func(string, string) (bool, error) { return true, nil }
	for b.Loop() {
		if !testing.RunTests(every, []testing.InternalTest{run}) {
			b.FailNow()
		}
	}
	used := (cpuTime(b) - began).Seconds() / float64(b.N)
	b.ReportMetric(used, "CPU-s")
	b.ReportMetric(lasts.Seconds()/used, "virtual-s/CPU-s")
	b.ReportMetric(float64(r.Tasks), "tasks")
	b.ReportMetric(float64(r.Commands), "commands")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
