package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/judge"
	"github.com/headway-go/headway/internal/products/provider"
)

// rounding is the precision of a store's clock, with some room.
const rounding = 5 * time.Millisecond

// figures are the figures of a test.
type figures struct {
	provider.Report
	tasks    int // tasks that started at least once
	repeated int // tasks that started more than once
	starts   []start
	noise    map[string]int // log lines from warning up, by level and text
}

// start is a start of a task, as its worker logged it.
type start struct {
	task    string
	logged  time.Time // by the worker's clock
	granted time.Time // when the bucket let the task start, by the clock of the store; the hold is included
}

// finish stops all running workers and the provider, and logs the figures. It fails if a worker failed, the limit was
// exceeded, or a task has not ended.
func (w *world) finish(t *testing.T) figures {
	t.Helper()
	for _, p := range w.workers {
		p.terminate(t)
	}
	for _, p := range w.workers {
		if code := p.exit(t); code != 0 && code != -1 { // -1: killed by the test
			t.Errorf("%s ended with exit code %d", p.name, code)
		}
	}
	w.provider.terminate(t)
	if code := w.provider.exit(t); code != 0 {
		t.Errorf("the provider ended with exit code %d", code)
	}
	var r provider.Report
	_, last, _ := strings.Cut(w.provider.out.String(), "\n")
	if err := json.Unmarshal([]byte(last), &r); err != nil {
		t.Fatalf("read the provider's report: %v", err)
	}
	f := w.figures(t, r)
	if i := w.info(t); i.Size != i.Completed {
		t.Errorf("the queue is not done: %s", describe(i))
	}
	return f
}

// figures reads the logs of the workers, and fails if the limit was exceeded.
func (w *world) figures(t *testing.T, r provider.Report) figures {
	t.Helper()
	f := figures{Report: r, noise: map[string]int{}, tasks: len(r.Starts)}
	for _, n := range r.Starts {
		if n > 1 {
			f.repeated++
		}
	}
	for _, p := range w.workers {
		w.readLog(t, p, &f)
	}
	slices.SortFunc(f.starts, func(a, b start) int { return a.granted.Compare(b.granted) })
	t.Logf("%d tasks have started, %d of them more than once", f.tasks, f.repeated)
	for _, text := range slices.Sorted(maps.Keys(f.noise)) {
		t.Logf("logged %d times: %s", f.noise[text], text)
	}
	if w.setting.rate > 0 {
		f.wantLimitKept(t, w.setting.rate, w.setting.capacity)
	}
	return f
}

// wantLimitKept fails if buckets let more tasks start than a limit allows, or a task started before. Nothing here
// depends on how long a busy machine needs from the bucket's answer to the call.
func (f *figures) wantLimitKept(t *testing.T, rate, capacity float64) {
	t.Helper()
	if len(f.starts) == 0 {
		t.Error("no worker logged a start")
		return
	}
	b := judge.NewBucket(rate, capacity, rounding, f.starts[0].granted)
	unused := len(f.starts) - f.Accepted // starts without a call give their tokens back
	exceeded := 0
	for _, s := range f.starts {
		b.Fill(s.granted)
		if !b.HasRoom(1) && unused > 0 {
			unused--
			b.Add(1)
		}
		if !b.HasRoom(1) {
			if exceeded++; exceeded <= 5 {
				t.Errorf("%s: the bucket let task %s start, and there was room for %.3f", s.granted.Format(time.StampMicro), s.task,
					b.Level)
			}
		}
		b.Add(-1)
	}
	if exceeded > 0 {
		t.Errorf("%d of %d starts exceeded the limit", exceeded, len(f.starts))
	}
}

// record is the part of a worker's log line that the tests read.
type record struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Text    string    `json:"msg"`
	Task    string    `json:"task_id"`
	Hold    float64   `json:"hold_seconds"`
	Granted time.Time `json:"granted_at"`
	Says    string    `json:"says"`
}

// readLog reads the starts and warnings of a worker.
func (w *world) readLog(t *testing.T, p *process, f *figures) {
	t.Helper()
	for line := range strings.Lines(p.log(t)) {
		var r record
		if json.Unmarshal([]byte(line), &r) != nil {
			if !strings.HasSuffix(line, "\n") {
				continue // the process was killed in the middle of the line
			}
			t.Errorf("%s wrote a line that is not a log line: %s", p.name, strings.TrimSpace(line))
			return
		}
		if r.Text == "task starts" {
			s := start{task: r.Task, logged: r.Time, granted: r.Granted.Add(time.Duration(r.Hold * float64(time.Second)))}
			if !w.clocksDiffer && s.granted.Sub(s.logged) > rounding {
				t.Errorf("task %s started %v before the bucket let it start", s.task, s.granted.Sub(s.logged))
			}
			f.starts = append(f.starts, s)
		}
		if r.Level == "WARN" || r.Level == "ERROR" {
			f.noise[strings.TrimSpace(r.Level+" "+r.Text+" "+shorten(r.Says))]++
		}
	}
}

func shorten(text string) string { return text[:min(len(text), 60)] }

// wantOnce fails unless exactly that many tasks have started, each once.
func (f *figures) wantOnce(t *testing.T, tasks int) {
	t.Helper()
	if f.tasks != tasks || f.repeated != 0 {
		t.Errorf("%d tasks have started, %d of them more than once; wanted %d, each once", f.tasks, f.repeated, tasks)
	}
}

// wantNoneGranted fails if a bucket let a task start between two times.
func (f *figures) wantNoneGranted(t *testing.T, from, to time.Time) {
	t.Helper()
	for _, s := range f.starts {
		if s.granted.After(from) && s.granted.Before(to) {
			t.Errorf("the bucket let task %s start at %s", s.task, s.granted.Format(time.StampMicro))
		}
	}
}

// wantNoRetries fails if a completed task has used a retry.
func (w *world) wantNoRetries(t *testing.T) {
	t.Helper()
	for _, retried := range w.retried(t) {
		t.Error(retried)
	}
}
