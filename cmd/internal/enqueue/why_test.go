package enqueue

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

// failing answers each call with 500.
type failing struct{}

func (failing) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(strings.NewReader(`{"error": {"code": "broken", "message": "no"}}`)),
	}, nil
}

// The status names the newest error, and how many requests have it, while they wait for another attempt.
func TestStatusNamesTheLastError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", chats(3)), "--limit", "openai"))
		if c := w.call(t, "status", id); strings.Contains(c.out, "last error") {
			t.Errorf("before any attempt: %s", c.out)
		}
		stop := w.work(t, failing{})
		w.until(t, func(info *asynq.QueueInfo) bool { return info.Retry == 3 })
		stop()
		c := w.call(t, "status", id)
		want := "; last error, of 3 requests: chat completion: 500 Internal Server Error: broken: no; "
		if c.code != cli.ExitOK || !strings.Contains(strings.ReplaceAll(c.out, "\n", " "), want) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", id, "--json"); !strings.Contains(c.out, `"last_error_requests":3`) {
			t.Error(c.out)
		}
	})
}

// A limit that no live worker has is named, with what to do.
func TestStatusNamesTheLimitThatNoWorkerHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.work(t, nil)
		w.config = write(t, "headway.yaml", "limits: {example: {meters: {requests: 100/s, tokens: 20000/s}}}")
		id := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", chats(3)), "--limit", "example"))
		w.until(t, func(info *asynq.QueueInfo) bool { return info.Pending+info.Active == 0 }) // the worker returns them
		client, err := connect.Redis(w.context(t), w.getenv)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		workers := register.New(client)
		other := register.Member{Limits: register.ByName([]reservations.Limit{
			{Name: "openai", Meters: []reservations.Meter{reservations.PerMinute("requests", 1)}},
		})}
		if err := workers.Renew(t.Context(), "other", other); err != nil {
			t.Fatal(err)
		}
		const want = "no live worker has limit \"example\"; add it to `limits` in the headway.yaml of the workers"
		if c := w.call(t, "status", id); c.code != cli.ExitOK || !strings.Contains(c.out, want) ||
			strings.Contains(c.out, "not known") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		other.AnyLimit = true
		if err := workers.Renew(t.Context(), "other", other); err != nil {
			t.Fatal(err)
		}
		if c := w.call(t, "status", id); strings.Contains(c.out, "no live worker") {
			t.Errorf("a worker has it: %s%s", c.out, c.err)
		}
	})
}

// A queue that Redis lost, and lines that were never enqueued, are named with the command that goes on.
func TestStatusNamesWhatIsNotInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(3))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai"))
		w.loseQueue(t)
		c := w.call(t, "status", id)
		if want := "3 requests are not in the queue any more, as if Redis had lost its data: `headway batch " + in +
			" --limit openai` enqueues the rest again"; c.code != cli.ExitOK || !strings.Contains(c.out, want) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status"); !strings.Contains(c.out, "not in the queue") {
			t.Error(c.out)
		}
		if c = w.call(t, "batch", in, "--limit", "openai"); c.code != cli.ExitOK || c.pending(t) != 3 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", id); strings.Contains(c.out, "not in the queue") ||
			strings.Contains(c.out, "not enqueued") {
			t.Error(c.out)
		}
		other := w.opened(t, 10)
		if err := w.store(t).SetEnqueued(t.Context(), other, 4); err != nil {
			t.Fatal(err)
		}
		c = w.call(t, "status", other)
		const want = "lines 5 to 10 are not enqueued: if their command has ended, `headway batch "
		if !strings.Contains(c.out, want) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// loseQueue empties the Redis, but for the records and buckets, which may be elsewhere.
func (w *world) loseQueue(t *testing.T) {
	t.Helper()
	for _, key := range keys(t, w.redis) {
		if strings.HasPrefix(key, "headway:{documents}:") || strings.HasPrefix(key, "headway:{buckets}:") {
			continue
		}
		if err := w.redis.Client.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// The failed requests of a batch are listed with the IDs of their tasks.
func TestStatusListsFailedRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		in := write(t, "in.jsonl", chatLine("good", "hi")+chatLine("bad", "never works"))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai", "--wait"))
		c := w.call(t, "status", id, "--failed")
		if lines := strings.Split(strings.TrimSpace(c.out), "\n"); c.code != cli.ExitOK || len(lines) != 2 ||
			!strings.HasPrefix(lines[1], "bad        "+id+"-2-0  1      ") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", id, "--failed", "--json"); !strings.Contains(c.out, `"task":"`+id+`-2-0"`) {
			t.Error(c.out)
		}
		if c = w.call(t, "status", "--failed"); c.code != cli.ExitUsage {
			t.Errorf("exit %d: %s", c.code, c.out)
		}
	})
}

// Below the batches, the status names the tasks that wait for limits, also for a limit that only a Go program has.
func TestStatusNamesWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client, err := connect.Redis(w.context(t), w.getenv)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		vendor := []reservations.Limit{{Name: "vendor", Meters: []reservations.Meter{
			{Name: "requests", Rate: 1, Period: time.Hour, Capacity: 1},
		}}}
		program := register.Member{Name: "go:1", Limits: register.ByName(vendor)}
		if err = register.New(client).Renew(t.Context(), "go", program); err != nil {
			t.Fatal(err)
		}
		limiter, err := reservations.New(memstore.New(), vendor, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := scheduler.New(client, limiter, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		call := tasks.Terms{Taken: []reservations.Charge{{Limit: "vendor", Tokens: reservations.Tokens{"requests": 1}}}}
		for range 3 {
			if _, err = s.Enqueue(t.Context(), web.Request{Terms: call, URL: "http://127.0.0.1/"}); err != nil {
				t.Fatal(err)
			}
		}
		const waits = "3 tasks wait for limit vendor"
		if c := w.call(t, "status"); c.code != cli.ExitOK || !strings.Contains(c.out, waits+"\n") {
			t.Errorf("an end is expected without a worker: exit %d: %s%s", c.code, c.out, c.err)
		}
		testenv.Serve(t, client, "default")
		const want = waits + ", the last is expected to start in "
		if c := w.call(t, "status"); c.code != cli.ExitOK || !strings.Contains(c.out, want) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// The flow of a batch has the name of its file, and no start is expected while its queue is paused.
func TestFlowsHaveTheNamesOfFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "reviews.jsonl", chats(3))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai"))
		s, err := session.Load(w.context(t), cli.Environment{Getenv: w.getenv, Err: t.Output()}, w.config, session.Needs{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
		testenv.Serve(t, s.Queue, "default")
		look := func() state.Bucket {
			read, failed := s.Reader().Read(t.Context(), "openai")
			if failed != nil || len(read.Limits[0].Buckets[0].Flows) != 1 {
				t.Fatalf("%+v, %v", read, failed)
			}
			return read.Limits[0].Buckets[0]
		}
		if b := look(); b.Flows[0].Flow != id || b.Flows[0].String() != in || b.EndIn == nil {
			t.Errorf("%+v", b)
		}
		last := waitlist.Task{Queue: "default", ID: batchref.Ref{Batch: id, Line: 3}.TaskID()}
		if e, failed := explained.Read(t.Context(), s.Reader(), last.Queue, last.ID); failed != nil || e.FlowName != in ||
			e.Bucket.Flows[0].String() != in {
			t.Errorf("%+v, %v", e, failed)
		}
		if err = asynq.NewInspectorFromRedisClient(s.Queue).PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		if b := look(); b.EndIn != nil || len(b.Paused) != 1 || b.Held["default"] != 3 {
			t.Errorf("paused: %+v", b)
		}
		if c := w.call(t, "status"); strings.Contains(c.out, "expected to start") ||
			!strings.Contains(c.out, "Queue default is paused: 3 tasks wait. Resume it with `headway unpause default`.") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}
