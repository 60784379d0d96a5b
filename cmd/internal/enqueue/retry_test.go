package enqueue

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/setup/cli"
)

// The record of a dead request ends when the request is sent again.
func TestRetryEndsDeadRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		in := write(t, "in.jsonl", chatLine("good", "hi")+chatLine("bad", "never works"))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai", "--wait"))
		dead, err := w.buckets(t).Dead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		record := func(line int) deadletter.Task {
			return deadletter.Task{
				ID: fmt.Sprintf("%s-%d-0", id, line), Queue: "default", Type: "llm:call",
				Payload: fmt.Appendf(nil, `{"batch":{"id":%q,"line":%d}}`, id, line),
				At:      time.Now(),
			}
		}
		if err = dead.Recorder().Record(t.Context(), []deadletter.Task{record(2), record(3)}); err != nil {
			t.Fatal(err)
		}
		if c := w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if n, err := dead.Count(t.Context(), deadtasks.Filter{Batch: id}); n != 1 || err != nil { // line 3 was not sent again
			t.Errorf("%d dead records, %v", n, err)
		}
	})
}

// A request that can't be made any more hinders no other one that is named.
func TestRetryOneBesideAnInvalidOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store, id := w.store(t), w.opened(t, 3)
		for i, request := range []string{line("a", 5), `{"custom_id": "b"}`, ""} { // the last was too large to keep
			if err := store.Finish(t.Context(), batches.Result{
				Batch: id, Line: i + 1, CustomID: "abc"[i : i+1], Failure: &batches.Failure{Code: "x", Message: "no"},
				Request: []byte(request),
			}); err != nil {
				t.Fatal(err)
			}
		}
		if c := w.call(t, "retry", id, "--failed"); c.code == cli.ExitOK || !strings.Contains(c.err, "no request was sent") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c := w.call(t, "retry", id+":a"); c.code != cli.ExitOK || !strings.Contains(c.out, "1 failed request is") ||
			c.pending(t) != 1 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c := w.call(t, "retry", id+":c"); c.code == cli.ExitOK || !strings.Contains(c.err, "too large to keep") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}
