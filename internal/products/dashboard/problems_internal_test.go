package dashboard

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/scheduler"
)

// A problem has a sentence with its figures, an order, and the page that shows more.
func TestProblemsAreShown(t *testing.T) {
	t.Parallel()
	f := fleet{Snapshot: state.Snapshot{
		At:      time.Now(),
		Queues:  []*asynq.QueueInfo{{Queue: "default", Paused: true, Pending: 1}},
		Batches: stuckBatches([]batchRow{{State: "open", Progress: batches.Progress{Batch: batches.Batch{ID: "b"}}}}),
		Limits:  []state.Limit{{Limit: "api", Buckets: []state.Bucket{{Bucket: "api:k", Waiting: 2, Blocked: 30}}}},
	}}
	want := []problem{{
		Severity: state.Severe, What: "Queue default is paused: 1 task waits.",
		Do: "Resume it with `headway unpause default`.", Link: "queue?name=default",
	}, {
		Severity: state.Slow,
		What:     "Limit api:k is blocked, because a provider refused a call: 2 tasks wait, for 30s more.",
		Do:       "`headway limits unblock api:k` ends that.", Link: "limit?name=api%3Ak",
	}}
	if d := cmp.Diff(want, problems(f)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// While the workers can't be read, no queue counts as unserved.
func TestQueuesWithoutWorkersKnown(t *testing.T) {
	t.Parallel()
	f := fleet{Snapshot: state.Snapshot{
		Queues: []*asynq.QueueInfo{{Queue: "default", Pending: 1}},
		Faults: []state.Fault{{Part: state.PartWorkers, Err: errors.New("away")}},
	}}
	if got := f.queueViews()[0].State; got != "not known" {
		t.Errorf("the queue is %s", got)
	}
}

// The path of a task has a title for each reason that scheduler knows.
func TestEachReasonHasATitle(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../scheduler/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	for _, r := range reasons {
		if titleOf(scheduler.Reason(r[1])) == "" {
			t.Errorf("%s has no title", r[1])
		}
	}
	if len(reasons) < 18 {
		t.Errorf("only %d reasons are found", len(reasons))
	}
}

func TestWorkersAreShown(t *testing.T) {
	t.Parallel()
	page, err := (&Server{}).execute("live", view{Name: "queues", Data: queuesData{Workers: []*asynq.ServerInfo{{
		Host: "host", PID: 7, Status: "stopped", Queues: map[string]int{"b": 1, "a": 2}, Concurrency: 20,
		ActiveWorkers: make([]*asynq.WorkerInfo, 3),
	}}}})
	const want = `host:7 <span class="tag warn">stopping</span></td><td class="n">3</td><td class="n">20</td><td>a, b</td>`
	if err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v:\n%s", err, page)
	}
}

func TestNumbersAndTimes(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{
		0: "0", 1: "1", 12.345: "12.35", -0.5: "−0.5", 999: "999", 1234: "1\u202f234", 99999.6: "100\u202f000",
		1234567: "1\u202f234\u202f567", -4321: "−4\u202f321", 100.4: "100",
	} {
		if got := number(n); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 ms", 40 * time.Millisecond: "40 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59 s",
		60 * time.Second: "1 min", 135 * time.Second: "2 min 15 s", time.Hour: "1 h",
		26*time.Hour + 30*time.Minute: "1 d 2 h",
		90 * time.Minute:              "1 h 30 min", -time.Second: "−1.0 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
