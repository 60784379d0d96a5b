package e2e_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// followWithin is how long the fleet may take to follow a changed limit.
const followWithin = 3 * time.Second

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

// The limit is set, changed in the file and unset while tasks wait: the commands show it. Package fleets shows that the
// fleet keeps each rate.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestLimitsCommandsWhileTasksWait(t *testing.T) {
	measures(t, 20*time.Second)
	const tasks = 700
	s := setting{
		limit:    "{meters: {requests: {rate: 20/s, capacity: 20}}}",
		provider: []string{"-requests-rate=80", "-requests-capacity=20"},
	}
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitWorkers(t)
	await(t, "all tasks wait", func() (bool, string) {
		i := w.info(t)
		return i.Pending == 0 && i.Scheduled+i.Retry > tasks-200, describe(i)
	})
	w.explainOne(t, 20)
	w.wantShown(t, 20, "")
	t.Log(w.worker(t, "limits", "set", "openai.requests", "40/s"))
	pass(t, followWithin)
	w.explainOne(t, 40)
	w.wantShown(t, 40, "openai.requests 40/s")
	s.limit = "{meters: {requests: {rate: 80/s, capacity: 20}}}"
	if err := os.WriteFile(w.config, []byte(s.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.workers {
		p.signal(t, syscall.SIGHUP)
	}
	w.wantShown(t, 40, "openai.requests 40/s") // the override still counts
	t.Log(w.worker(t, "limits", "unset", "openai.requests"))
	pass(t, followWithin)
	w.wantShown(t, 80, "")
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
}
