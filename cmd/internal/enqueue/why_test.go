package enqueue

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/register"
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
}

// A limit that no live worker has is named, with what to do.
func TestStatusNamesTheLimitThatNoWorkerHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(t, nil)
	w.config = write(t, "headway.yaml", "limits: {example: {meters: {requests: 100/s, tokens: 20000/s}}}")
	id := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", chats(3)), "--limit", "example"))
	w.until(t, func(info *asynq.QueueInfo) bool { return info.Pending+info.Active == 0 }) // the worker returns them
	client, err := connect.Redis(t.Context(), w.getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	workers := register.New(client)
	other := register.Member{Limits: map[string]map[string]string{"openai": {}}}
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
}

// A queue that Redis lost, and lines that were never enqueued, are named with the command that goes on.
func TestStatusNamesWhatIsNotInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := write(t, "in.jsonl", chats(3))
	id := batchOf(t, w.call(t, "batch", in, "--limit", "openai"))
	w.redis.FlushAll()
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
}

// The failed requests of a batch are listed with the IDs of their tasks.
func TestStatusListsFailedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upstream := &refusing{}
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
}
