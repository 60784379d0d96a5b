package dashboard

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/overview"
	"github.com/headway-go/headway/internal/register"
	"github.com/headway-go/headway/scheduler"
)

// Each problem is found alone, with its severity, and a fleet that works has none.
func TestStuck(t *testing.T) {
	t.Parallel()
	long, soon := 7200., 12.
	worker := &asynq.ServerInfo{Status: "active", Queues: map[string]int{"default": 1}}
	queue := func(q asynq.QueueInfo) []*asynq.QueueInfo {
		q.Queue = "default"
		return []*asynq.QueueInfo{&q}
	}
	limit := func(b overview.Bucket) []overview.Limit {
		b.Bucket, b.Limit = "api", "api"
		return []overview.Limit{{Limit: "api", Buckets: []overview.Bucket{b}}}
	}
	batch := func(b batches.Batch, state string, waiting int) batchRow {
		return batchRow{Progress: batches.Progress{Batch: b}, State: state, Waiting: waiting}
	}
	duty := engine.Duty{Dispatcher: "x"}
	for want, f := range map[string]fleet{
		"": {
			Queues:  queue(asynq.QueueInfo{Active: 3, Scheduled: 10, Pending: 2, Latency: time.Second}),
			Workers: []*asynq.ServerInfo{worker},
			Limits:  limit(overview.Bucket{Waiting: 10, EndIn: &soon}), Duty: duty,
		},
		"severe: No worker is running: 2 tasks in queue default wait.": {Queues: queue(asynq.QueueInfo{Pending: 2})},
		"severe: No worker takes from queue default: 1 task waits.": {
			Queues:  queue(asynq.QueueInfo{Retry: 1}),
			Workers: []*asynq.ServerInfo{{Status: "active", Queues: map[string]int{"other": 1}}},
		},
		"severe: No worker takes from queue default: 3 tasks wait.": {
			Queues:  queue(asynq.QueueInfo{Retry: 3}),
			Workers: []*asynq.ServerInfo{{Status: "stopped", Queues: map[string]int{"default": 1}}},
		},
		"severe: Queue default is paused: 1 task does not start.": {
			Queues: queue(asynq.QueueInfo{Paused: true, Pending: 1}), Workers: []*asynq.ServerInfo{worker},
		},
		"slow: The oldest of 7 ready tasks in queue default has waited 2 min for a free worker.": {
			Queues: queue(asynq.QueueInfo{Pending: 7, Latency: 2 * time.Minute}), Workers: []*asynq.ServerInfo{worker},
		},
		"severe: No dispatcher is on duty: 4 tasks wait for limits, and no task is promoted.": {
			Limits: limit(overview.Bucket{Waiting: 4}), Workers: []*asynq.ServerInfo{worker},
		},
		"severe: The bucket of api could not be asked: 4 tasks wait. It is asked again in 2.5 s.": {
			Limits: limit(overview.Bucket{Waiting: 4, FailedIn: 2.5}), Duty: duty,
		},
		"slow: Nothing of api starts for 30 s, because a provider refused a call: 1 task waits.": {
			Limits: limit(overview.Bucket{Waiting: 1, Blocked: 30}), Duty: duty,
		},
		"severe: The limit api has stopped for 2 h, because the provider does not accept the key: 1 task waits.": {
			Limits: limit(overview.Bucket{Waiting: 1, Blocked: 30, Refusing: "key", RefusingFor: 7200}), Duty: duty,
		},
		"slow: 9 tasks wait for api; the last is expected to start in 2 h.": {
			Limits: limit(overview.Bucket{Waiting: 9, EndIn: &long}), Duty: duty,
		},
		`severe: No live worker has limit "example": 2 requests of batch in.jsonl wait.`: {
			Members: []register.Member{{Limits: map[string]map[string]string{"tenants": {}}}},
			Batches: []batchRow{
				batch(batches.Batch{Name: "in.jsonl", Limit: "tenants:a, example"}, "open", 2),
				batch(batches.Batch{Limit: "tenants"}, "open", 2),
				batch(batches.Batch{Limit: "example"}, "cancelled", 1),
			},
			Lacked: []register.Lack{{Need: register.Need{Limit: "example"}, Tasks: 1}},
		},
		`severe: No live worker has handler for task type "mail": 3 tasks wait for a worker that has it.`: {
			Members: []register.Member{{Types: []string{"llm:call"}}},
			Lacked:  []register.Lack{{Need: register.Need{Type: "mail"}, Tasks: 3}, {Need: register.Need{Type: "llm:call"}}},
		},
		"news: 2 tasks died in the last hour.": {DeadLately: 2},
		"severe: The page cannot read queues: away.": {
			Faults: []fault{{What: "queues", Err: errors.New("away")}},
		},
	} {
		var got []string
		for _, p := range f.stuck() {
			got = append(got, p.Severity+": "+p.What)
			if p.Do == "" {
				t.Errorf("%q does not say what to do", p.What)
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// An unreadable list of workers is one problem, not one of each queue.
func TestStuckWithoutWorkersKnown(t *testing.T) {
	t.Parallel()
	f := fleet{
		Queues: []*asynq.QueueInfo{{Queue: "default", Pending: 1}},
		Faults: []fault{{What: "workers", Err: errors.New("away")}},
	}
	if got := f.stuck(); len(got) != 1 || !strings.Contains(got[0].What, "cannot read workers") {
		t.Errorf("%+v", got)
	}
	if state := f.queueViews()[0].State; state != "not known" {
		t.Errorf("the queue is %s", state)
	}
}

// Two pages that share a look add their own faults to it.
func TestFaultsOfTwoPages(t *testing.T) {
	t.Parallel()
	look := fleet{Faults: make([]fault, 3, 4)}
	one, other := look, look
	for f, what := range map[*fleet]string{&one: "one", &other: "other"} {
		f.part(what, func() error { return errors.New("away") })
	}
	if one.Faults[3].What != "one" || other.Faults[3].What != "other" {
		t.Errorf("%+v and %+v", one.Faults[3], other.Faults[3])
	}
}

// The path of a task has a title for each reason that scheduler knows.
func TestEachReasonHasATitle(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../scheduler/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	for _, r := range reasons {
		if stepTitle(scheduler.Reason(r[1])) == "" {
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
