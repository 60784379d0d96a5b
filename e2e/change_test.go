package e2e_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/longtest"
)

// followWithin is how long the fleet may take to follow a changed limit.
const followWithin = 3 * time.Second

// startsIn returns the starts between two times, from the workers' logs.
func (f *figures) startsIn(from, to time.Time) []time.Time {
	var all []time.Time
	for _, j := range f.journeys {
		if !j.start.Before(from) && j.start.Before(to) {
			all = append(all, j.start)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// phase is a time with one rate.
type phase struct {
	name     string
	rate     float64
	from, to time.Time // from is when the rate was set
}

// want judges the phase after the fleet had time to follow. It fails if a window has more starts than the rate
// allows, or if the phase has too few.
func (p phase) want(t *testing.T, f *figures, capacity float64) {
	t.Helper()
	from := p.from.Add(followWithin)
	starts, first, seconds := f.startsIn(from, p.to), 0, p.to.Sub(from).Seconds()
	for i, at := range starts {
		for at.Sub(starts[first]) > time.Second {
			first++
		}
		// The starts are by the workers' clock, so a busy machine may delay one.
		span := at.Sub(starts[first]) + 100*time.Millisecond
		if n, most := i-first+1, capacity+p.rate*span.Seconds()+1; float64(n) > most {
			t.Errorf("%s: %d starts in the %v to %s, the rate allows %.1f", p.name, n, at.Sub(starts[first]),
				at.Format(time.StampMilli), most)
		}
	}
	used := float64(len(starts)) / (p.rate * seconds)
	t.Logf("%s: %d starts in %.1f s, %.1f %% of %g/s", p.name, len(starts), seconds, 100*used, p.rate)
	if float64(len(starts)+2) < 0.95*p.rate*seconds { // a short phase may begin and end between two starts
		t.Errorf("%s: %.1f %% of the rate was used, wanted 95 %%", p.name, 100*used)
	}
}

// The fields of `headway explain` and `headway limits show` that the test checks.
type (
	shownBucket struct {
		Bucket   string  `json:"bucket"`
		InUse    bool    `json:"in_use"`
		Waiting  int     `json:"waiting"`
		DoneIn   float64 `json:"done_in_seconds"`
		Override string  `json:"override"`
		Meters   []struct {
			Meter string  `json:"meter"`
			Rate  float64 `json:"rate"`
		} `json:"meters"`
	}
	explainedTask struct {
		ID      string    `json:"id"`
		Summary string    `json:"summary"`
		State   string    `json:"state"`
		Until   time.Time `json:"until"`
		Now     time.Time `json:"now"`
		Waits   *struct {
			Bucket   string `json:"bucket"`
			Reserved bool   `json:"reserved"`
			Rank     int    `json:"position"`
			Of       int    `json:"of"`
		} `json:"waits"`
		Bucket *shownBucket `json:"bucket"`
	}
)

// show returns the bucket of the limit.
func (w *world) show(t *testing.T) shownBucket {
	t.Helper()
	var shown struct {
		Limits []struct {
			Buckets []shownBucket `json:"buckets"`
		} `json:"limits"`
	}
	out := w.worker(t, "limits", "show", "openai", "--json")
	if err := json.Unmarshal([]byte(out), &shown); err != nil || len(shown.Limits) != 1 ||
		len(shown.Limits[0].Buckets) != 1 {
		t.Fatalf("limits show: %v in %s", err, out)
	}
	return shown.Limits[0].Buckets[0]
}

// wantShown fails unless the bucket has this rate and override, and a backlog that the rate explains.
func (w *world) wantShown(t *testing.T, rate float64, override string) {
	t.Helper()
	b := w.show(t)
	t.Logf("shown: %+v", b)
	if b.Bucket != "openai" || !b.InUse || len(b.Meters) != 1 || b.Meters[0].Rate != rate ||
		!strings.Contains(b.Override, override) || (override == "") != (b.Override == "") {
		t.Errorf("shows %+v, wanted a rate of %g and override %q", b, rate, override)
	}
	if expected := float64(b.Waiting) / rate; b.Waiting < 100 || math.Abs(b.DoneIn-expected) > 0.1*expected+1 {
		t.Errorf("shows %d that wait, done in %.1f s; by the rate it is %.1f s", b.Waiting, b.DoneIn, expected)
	}
}

// explainOne explains a task in the middle of the waitlist.
func (w *world) explainOne(t *testing.T, rate float64) {
	t.Helper()
	const middle = 150 // of the sorted tasks, or of the tasks that were sent back
	waiting, err := w.inspector.ListScheduledTasks(queue, asynq.PageSize(1), asynq.Page(middle))
	if err == nil && len(waiting) == 0 {
		waiting, err = w.inspector.ListRetryTasks(queue, asynq.PageSize(1), asynq.Page(middle))
	}
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%d tasks wait, %v", len(waiting), err)
	}
	var explained []explainedTask
	out := w.worker(t, "explain", waiting[0].ID, "--json")
	if err := json.Unmarshal([]byte(out), &explained); err != nil || len(explained) != 1 || explained[0].Waits == nil ||
		explained[0].Bucket == nil {
		t.Fatalf("explain: %v in %s", err, out)
	}
	e := explained[0]
	t.Logf("explained: %s", e.Summary)
	if e.ID != waiting[0].ID || e.State != waiting[0].State.String() || e.Waits.Bucket != "openai" || !e.Waits.Reserved ||
		e.Bucket.Bucket != "openai" {
		t.Errorf("explains %s", out)
	}
	in := e.Until.Sub(e.Now).Seconds()
	if expected := float64(e.Waits.Rank) / rate; e.Waits.Rank < 1 || e.Waits.Rank > e.Waits.Of ||
		math.Abs(in-expected) > 0.1*expected+1 {
		t.Errorf("place %d of %d, and its turn in %.1f s; by the rate it is %.1f s", e.Waits.Rank, e.Waits.Of, in, expected)
	}
	for _, text := range []string{"waits for limit openai", fmt.Sprintf("number %d of %d", e.Waits.Rank, e.Waits.Of)} {
		if !strings.Contains(e.Summary, text) {
			t.Errorf("%q is missing in %q", text, e.Summary)
		}
	}
}

// The limit is raised, lowered, changed in the file and unset, while more than a thousand tasks wait. The provider
// allows the highest rate all the time. The workers' logs show that lower rates are kept.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestLimitChangesWhileTasksWait(t *testing.T) {
	longtest.Only(t, 40*time.Second)
	const tasks, capacity = 1400, 20
	s := setting{
		limit:    "{meters: {requests: {rate: 20/s, capacity: 20}}}",
		provider: []string{"-requests-rate=100", "-requests-capacity=20"},
	}
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitWorkers(t)
	await(t, "all tasks wait", func() (bool, string) {
		i := w.info(t)
		return i.Pending == 0 && i.Scheduled+i.Retry > tasks-200, describe(i)
	})
	t.Logf("they wait: %s", describe(w.info(t)))
	var phases []phase
	during := func(name string, rate float64, d time.Duration, change func()) {
		t.Helper()
		if n := len(phases); n > 0 {
			phases[n-1].to = time.Now()
		}
		change()
		phases = append(phases, phase{name: name, rate: rate, from: time.Now()})
		pass(t, d)
	}
	w.explainOne(t, 20)
	w.wantShown(t, 20, "")
	during("raised", 100, 6*time.Second, func() { t.Log(w.worker(t, "limits", "set", "openai.requests", "100/s")) })
	w.wantShown(t, 100, "openai.requests 100/s")
	during("lowered", 20, 6*time.Second, func() { t.Log(w.worker(t, "limits", "set", "openai.requests", "20/s")) })
	w.explainOne(t, 20)
	w.wantShown(t, 20, "openai.requests 20/s")
	during("reloaded", 20, 3500*time.Millisecond, func() { // the override still counts
		s.limit = "{meters: {requests: {rate: 80/s, capacity: 20}}}"
		if err := os.WriteFile(w.config, []byte(s.yaml()), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range w.workers {
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
	})
	during("taken back", 80, 5500*time.Millisecond, func() { t.Log(w.worker(t, "limits", "unset", "openai.requests")) })
	phases[len(phases)-1].to = time.Now()
	left := w.info(t)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	if left.Scheduled+left.Retry == 0 {
		t.Errorf("no task waited to the end: %s", describe(left))
	}
	for _, p := range phases {
		p.want(t, &f, capacity)
	}
	if f.deliveries > 3 {
		t.Errorf("%.2f deliveries a task, wanted at most 3", f.deliveries)
	}
}
