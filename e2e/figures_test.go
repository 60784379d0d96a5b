package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/provider"
)

// figures are the figures of a test.
type figures struct {
	provider.Report
	tasks      int // tasks that started at least once
	repeated   int // tasks that started more than once
	deliveries float64
	lateness   []time.Duration // of tasks that had waited, sorted
	journeys   []journey       // sorted by duration
	noise      map[string]int  // log lines from warning up, by level and text
	stood      time.Duration   // how long the machine stalled
}

// finish stops all running workers and the provider, logs the figures, and fails on violations and errors.
func (w *world) finish(t *testing.T) figures {
	t.Helper()
	for _, p := range w.workers {
		p.terminate(t)
	}
	for _, p := range w.workers {
		if code := p.exit(t, stopWithin); code != 0 && code != -1 { // -1: killed by the test
			t.Errorf("%s ended with exit code %d", p.name, code)
		}
	}
	w.provider.terminate(t)
	if code := w.provider.exit(t, stopWithin); code != 0 {
		t.Errorf("the provider ended with exit code %d", code)
	}
	f := figures{noise: map[string]int{}, stood: w.pulse.total()}
	_, last, _ := strings.Cut(w.provider.out.String(), "\n")
	if err := json.Unmarshal([]byte(last), &f.Report); err != nil {
		t.Fatalf("read the provider's report: %v", err)
	}
	f.tasks = len(f.Starts)
	for _, n := range f.Starts {
		if n > 1 {
			f.repeated++
		}
	}
	w.readLogs(t, &f)
	f.show(t)
	w.wantNoViolations(t, f.Report, &f)
	if i := w.info(t); i.Size != i.Completed {
		t.Errorf("the queue is not done: %s", describe(i))
	}
	return f
}

// wantNoViolations fails for each violation that the delays of the machine do not explain; see pulse.longest.
func (w *world) wantNoViolations(t *testing.T, r provider.Report, f *figures) {
	t.Helper()
	late := w.pulse.longest()
	explained := 0
	for _, v := range r.Refusals {
		text := fmt.Sprintf("refused at %s: task %s needed %g of %s and there were %.3f; the slowest start in the half "+
			"second before took %v from the bucket's decision, and the machine was late by %v",
			v.At.Format(time.StampMilli), v.Task, v.Need, v.Meter, v.Had, f.slowest(v.At), late)
		if v.Need-v.Had <= r.Meters[v.Meter].Rate*late.Seconds() {
			explained++
			t.Log(text)
		} else {
			t.Error(text)
		}
	}
	if r.Violations > explained {
		t.Errorf("%d violations of %d requests", r.Violations, r.Requests)
	}
}

// record is the part of a worker's log line that the tests read.
type record struct {
	Time     time.Time     `json:"time"`
	Level    string        `json:"level"`
	Text     string        `json:"msg"`
	Task     string        `json:"task_id"`
	Lateness time.Duration `json:"lateness"`
	Hold     time.Duration `json:"hold"`
	Granted  time.Time     `json:"granted_at"`
	Error    any           `json:"error"`
	Says     string        `json:"says"`
}

// readLogs counts deliveries (starts and waits), and how late the tasks that had waited started.
func (w *world) readLogs(t *testing.T, f *figures) {
	t.Helper()
	waited, starts := map[string]int{}, map[string][]time.Duration{}
	deliveries := 0
	for _, p := range w.workers {
		for line := range strings.Lines(p.log(t)) {
			var r record
			if json.Unmarshal([]byte(line), &r) != nil {
				if !p.cmd.ProcessState.Success() && !strings.HasSuffix(line, "\n") {
					continue // the process was killed in the middle of the line
				}
				t.Errorf("%s wrote a line that is not a log line: %s", p.name, strings.TrimSpace(line))
				return
			}
			switch r.Text {
			case "task waits":
				deliveries++
				waited[r.Task]++
			case "task starts":
				deliveries++
				f.journeys = append(f.journeys, journey{start: r.Time, took: r.Time.Sub(r.Granted) - r.Hold})
				starts[r.Task] = append(starts[r.Task], r.Lateness)
			}
			if r.Level == "WARN" || r.Level == "ERROR" {
				f.noise[strings.TrimSpace(r.Level+" "+r.Text+" "+shorten(r.Says))]++
			}
		}
	}
	for task := range waited {
		f.lateness = append(f.lateness, starts[task]...)
	}
	slices.Sort(f.lateness)
	slices.SortFunc(f.journeys, func(a, b journey) int { return cmp.Compare(a.took, b.took) })
	f.deliveries = float64(deliveries) / max(1, float64(f.tasks))
}

func shorten(text string) string { return text[:min(len(text), 60)] }

func (f *figures) show(t *testing.T) {
	t.Helper()
	took := make([]time.Duration, len(f.journeys))
	for i, j := range f.journeys {
		took[i] = j.took
	}
	t.Logf("violations %d, tasks started %d (repeated %d), used %.2f %%, from first to last start %.1f s, longest gap "+
		"%.2f s, deliveries a task %.2f, lateness p50 %v p99 %v, from decision to start p50 %v p99 %v most %v",
		f.Violations, f.tasks, f.repeated, 100*f.Utilization, f.LastStart.Sub(f.FirstStart).Seconds(), f.LongestGapSeconds,
		f.deliveries, quantile(f.lateness, 0.5), quantile(f.lateness, 0.99), quantile(took, 0.5), quantile(took, 0.99),
		quantile(took, 1))
	for _, name := range slices.Sorted(maps.Keys(f.Meters)) {
		m := f.Meters[name]
		var windows []string
		for _, w := range m.Windows {
			windows = append(windows, fmt.Sprintf("%g s: %g of %g", w.Seconds, w.Most, w.Allowed))
		}
		t.Logf("meter %s: used %.2f %%, busiest windows %s", name, 100*m.Utilization, strings.Join(windows, ", "))
	}
	if f.stood > 0 {
		t.Logf("the machine stalled for %v in total", f.stood.Round(time.Millisecond))
	}
	for _, text := range slices.Sorted(maps.Keys(f.noise)) {
		t.Logf("logged %d times: %s", f.noise[text], text)
	}
}

// quantile returns zero without values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))].Round(100 * time.Microsecond)
}

// journey is the time of a granted task from the bucket's decision to its start, without its hold. Bucket and workers
// share the clock of this machine.
type journey struct {
	start time.Time
	took  time.Duration
}

// slowest returns the longest journey of the tasks that started in the half second before at. Calls that a busy
// machine delays arrive together with calls that it does not delay. If the delay exceeds the provider's slack of 50
// ms, a refusal is not the limiter's fault.
func (f *figures) slowest(at time.Time) time.Duration {
	longest := time.Duration(0)
	for _, j := range f.journeys {
		if j.start.Before(at) && at.Sub(j.start) < time.Second/2 {
			longest = max(longest, j.took)
		}
	}
	return longest.Round(time.Millisecond)
}

// wantOnce fails unless exactly that many tasks have started, each once.
func (f *figures) wantOnce(t *testing.T, tasks int) {
	t.Helper()
	if f.tasks != tasks || f.repeated != 0 {
		t.Errorf("%d tasks have started, %d of them more than once; wanted %d, each once", f.tasks, f.repeated, tasks)
	}
}

// wantUsed fails if less than this share of the limit was used while the machine ran; see pulse and shortShare.
func (f *figures) wantUsed(t *testing.T, share, atLeast float64) {
	t.Helper()
	if testing.Short() {
		atLeast *= shortShare
	}
	if ran := 1 - 2*f.stood.Seconds()/f.LastStart.Sub(f.FirstStart).Seconds(); share < atLeast*ran {
		t.Errorf("%.2f %% of the limit used, wanted %.0f %%", 100*share, 100*atLeast*ran)
	}
}
