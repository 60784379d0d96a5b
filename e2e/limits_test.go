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

// isShown reports whether the bucket has this rate and override, and a backlog that the rate explains.
func (w *world) isShown(t *testing.T, rate float64, override string) (bool, string) {
	t.Helper()
	b := w.show(t)
	good := b.Bucket == "openai" && b.InUse && len(b.Meters) == 1 && b.Meters[0].Rate == rate &&
		strings.Contains(b.Override, override) && (override == "") == (b.Override == "")
	expected := float64(b.Waiting) / rate
	return good && b.Waiting >= 100 && math.Abs(b.DoneIn-expected) <= 0.1*expected+1, fmt.Sprintf("%+v", b)
}

// isExplained reports whether the command explains a task in the middle of the waitlist, whose turn comes by the rate.
func (w *world) isExplained(t *testing.T, rate float64) (bool, string) {
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
		return false, fmt.Sprintf("explain: %v in %s", err, out)
	}
	e := explained[0]
	in, expected := e.Until.Sub(e.Now).Seconds(), float64(e.Waits.Rank)/rate
	return e.ID == waiting[0].ID && e.State == waiting[0].State.String() && e.Waits.Bucket == "openai" &&
		e.Waits.Reserved && e.Bucket.Bucket == "openai" && e.Waits.Rank >= 1 && e.Waits.Rank <= e.Waits.Of &&
		math.Abs(in-expected) <= 0.1*expected+1 && strings.Contains(e.Summary, "waits for limit openai") &&
		strings.Contains(e.Summary, fmt.Sprintf("number %d of %d", e.Waits.Rank, e.Waits.Of)), out
}

// The limit is set, changed in the file and unset while tasks wait: the commands show it. Package fleets shows that the
// fleet keeps each rate. The rates are so low that tasks wait however slow the commands are. The last one ends that.
func TestLimitsCommandsWhileTasksWait(t *testing.T) {
	t.Parallel()
	const tasks = 600
	s := setting{limit: "{meters: {requests: {rate: 1/s, capacity: 20}}}"}
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	await(t, "most tasks wait", func() (bool, string) {
		i := w.info(t)
		return i.Pending == 0 && i.Scheduled+i.Retry > tasks/2, describe(i)
	})
	isShown := func(rate float64, override string) {
		await(t, fmt.Sprintf("shown with %g/s", rate), func() (bool, string) { return w.isShown(t, rate, override) })
	}
	isExplained := func(rate float64) {
		await(t, fmt.Sprintf("explained by %g/s", rate), func() (bool, string) { return w.isExplained(t, rate) })
	}
	isExplained(1)
	isShown(1, "")
	t.Log(w.worker(t, "limits", "set", "openai.requests", "2/s"))
	isExplained(2)
	isShown(2, "openai.requests 2/s")
	s.limit = "{meters: {requests: {rate: 0.5/s, capacity: 20}}}"
	if err := os.WriteFile(w.config, []byte(s.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.workers {
		p.signal(t, syscall.SIGHUP)
	}
	isShown(2, "openai.requests 2/s") // the override still counts
	t.Log(w.worker(t, "limits", "unset", "openai.requests"))
	isShown(0.5, "")
	t.Log(w.worker(t, "limits", "set", "openai.requests", "200/s"))
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
}
