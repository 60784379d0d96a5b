package enqueue

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/scheduler"
)

// A command that waits for a batch that is cancelled writes a line for each of its requests, before workers have
// taken them back.
func TestCancelledWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = batch.ChunkLines + 20
		in, errs := write(t, "in.jsonl", chats(n)), filepath.Join(t.TempDir(), "err.jsonl")
		store := w.store(t)
		var told bytes.Buffer
		progress := &lineSignal{line: "0 of 520 done", call: func() {
			if err := store.Cancel(t.Context(), batchOf(t, call{out: told.String()})); err != nil {
				t.Error(err)
			}
		}}
		code := cli.Run(w.context(t), rootCommand, []string{
			"batch", in, "--limit", "openai", "--errors", errs, "--config",
			w.config,
		},
			cli.Environment{Getenv: w.getenv, Out: &told, Err: progress})
		if text := progress.text.String(); code != cli.ExitFailed || !strings.Contains(text, "was cancelled") ||
			!strings.Contains(text, "headway results") {
			t.Errorf("exit %d: %s", code, text)
		}
		lines := readLines(t, errs)
		for i, l := range lines {
			if l.CustomID != "c"+strconv.Itoa(i+1) || l.Response != nil || l.Error.Code != "batch_cancelled" {
				t.Fatalf("line %d: %+v", i+1, l)
			}
		}
		if len(lines) != n {
			t.Errorf("%d lines", len(lines))
		}
	})
}

// Requests whose lines were never read can't have a result line. The command prints their number.
func TestResultsOfUnknownRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store, id := w.store(t), "0123456789abcdef"
		if _, _, err := store.Open(t.Context(), batches.Batch{
			ID: id, Lines: 3, Requests: 3, Limit: "openai",
			Queue: "default",
		}); err != nil {
			t.Fatal(err)
		}
		if err := store.Name(t.Context(), id, []batches.Named{{Line: 2, CustomID: "b"}}); err != nil {
			t.Fatal(err)
		}
		errs := filepath.Join(t.TempDir(), "err.jsonl")
		c := w.call(t, "results", id, "--errors", errs)
		if c.code != cli.ExitOK || !strings.Contains(c.out, "3 not there yet, of 3") ||
			strings.Contains(c.err, "no line") || len(readLines(t, errs)) != 0 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if err := store.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		c = w.call(t, "results", id, "--errors", errs)
		if lines := readLines(t, errs); c.code != cli.ExitOK ||
			!strings.Contains(c.err, "2 requests of the cancelled batch have no line") || len(lines) != 1 ||
			lines[0].CustomID != "b" {
			t.Errorf("exit %d: %+v: %s%s", c.code, lines, c.out, c.err)
		}
	})
}

// A batch that has ended can't be cancelled, and so its failed requests can still be sent again.
func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		c := w.call(t, "batch", write(t, "in.jsonl", chatLine("good", "hi")+chatLine("bad", "never works")), "--limit",
			"openai", "--wait")
		id := batchOf(t, c)
		if c = w.call(t, "cancel", id); c.code != cli.ExitOK || !strings.Contains(c.out, "nothing to cancel") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "cancel", id, "--json"); c.code != cli.ExitOK ||
			!strings.Contains(c.out, `"withdrawn":0,"ended":2,"left":0`) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK || !strings.Contains(c.out, "1 failed request is") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// insert stores a document that no command writes. A nil body leaves the stored one.
func (w *world) insert(t *testing.T, collection, key string, head, body bson.M) {
	t.Helper()
	in := redisdocs.New(w.redis.Client)
	err := documents.UpdateOne(t.Context(), in.Collection(collection), documents.Change{
		Key: key, Apply: func(d *documents.Document) (_ bool, err error) {
			if collection == "batches" {
				d.Group, d.At = "batches", time.Now()
			}
			if d.Head, err = bson.Marshal(head); err == nil && body != nil {
				d.Body, err = bson.Marshal(body)
			}
			return true, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A cancel that fails before the batch is marked does not say that the batch is cancelled.
func TestCancelThatFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", chats(3)), "--limit", "openai"))
		w.insert(t, "results", id+"/000000001", bson.M{"custom": "c1", "status": 5}, nil)
		c := w.call(t, "cancel", id)
		if b, err := w.store(t).Batch(t.Context(), id); err != nil || b.State != batches.StateOpen {
			t.Errorf("%+v, %v", b, err)
		}
		if c.code != cli.ExitFailed || strings.Contains(c.err, "is cancelled") ||
			!strings.Contains(c.err, "malformed") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// held holds calls until let is closed.
type held struct {
	next      http.RoundTripper
	came, let chan struct{}
}

func (h *held) RoundTrip(q *http.Request) (*http.Response, error) {
	h.came <- struct{}{}
	select {
	case <-h.let:
	case <-q.Context().Done():
	}
	return h.next.RoundTrip(q)
}

// A second cancel reports that the batch is cancelled. It counts running, never enqueued and already cancelled
// requests separately.
func TestCancelTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config = write(t, "headway.yaml", "limits: {openai: {meters: {requests: {rate: 2/h, capacity: 2}}}}")
		c := w.call(t, "batch", write(t, "in.jsonl", chats(6)), "--limit", "openai")
		id, store := batchOf(t, c), w.store(t)
		b, err := store.Batch(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		b.Lines, b.Requests = 10, 10 // like an enqueuer that died
		if _, _, err = store.Open(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		upstream := &held{next: w.judge, came: make(chan struct{}), let: make(chan struct{})}
		stop := w.work(t, upstream)
		<-upstream.came
		<-upstream.came
		w.until(t, func(info *asynq.QueueInfo) bool { return info.Retry+info.Scheduled == 4 })
		for _, want := range []string{
			"batch " + id + " is cancelled: 4 requests are deleted, 0 had ended, 2 are running, 4 were never enqueued\n",
			"batch " + id + " was cancelled already: 4 requests were cancelled before, 0 are deleted now, 0 had " +
				"ended, 2 are running, 4 were never enqueued\n",
		} {
			if c = w.call(t, "cancel", id); c.code != cli.ExitOK || c.out != want {
				t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
			}
		}
		told := "0 of 10 done, 0 failed, 8 cancelled, 2 running; 4 of the cancelled were never enqueued or may still be in " +
			"the queue (`headway cancel " + id + "` deletes them); cancelled\n"
		if c = w.call(t, "status", id); !strings.HasSuffix(c.out, told) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", "--json"); !strings.Contains(c.out, `"waiting":2,"cancelled":8,`) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status"); strings.Join(strings.Fields(c.out)[4:9], " ") != "DONE FAILED CANCELLED WAITING END" ||
			!strings.Contains(c.out, "0     0       8          2        cancelled") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		close(upstream.let)
		stop()
		if c = w.call(t, "status", id); !strings.Contains(c.out,
			"2 of 10 done, 0 failed, 8 cancelled; 4 of the cancelled") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		c = w.call(t, "cancel", id, "--json")
		if want := `"withdrawn":0,"ended":2,"left":4,"cancelled_before":4,"running":0,"never_enqueued":4,` +
			`"missing":0`; c.code != cli.ExitOK || !strings.Contains(c.out, want) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// Without the limit of the batch in the file no request is cancelled, because its reservation could not be released.
func TestCancelWithoutTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", chats(3)), "--limit", "openai"))
		good := w.config
		w.config = write(t, "headway.yaml", "limits: {other: {meters: {requests: 5/m}}}")
		c := w.call(t, "cancel", id)
		if c.code != cli.ExitUsage || c.out != "" || strings.Count(c.err, "\n") != 1 ||
			!strings.Contains(c.err, "take from limit openai, which neither "+w.config+" nor a live") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		w.config = good
		if c = w.call(t, "cancel", id); c.code != cli.ExitOK ||
			!strings.Contains(c.out, "is cancelled: 3 requests are deleted") || c.err != "" {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", id); !strings.HasSuffix(c.out,
			"\n0 of 3 done, 0 failed, 3 cancelled; cost 0.00; cancelled\n") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// The tasks behind a cancelled batch get its tokens at once.
func TestTasksBehindACancelledBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config = write(t, "headway.yaml", "limits: {openai: {meters: {requests: {rate: 60/m, capacity: 1}}}}")
		first := batchOf(t,
			w.call(t, "batch", write(t, "first.jsonl", chats(200)), "--limit", "openai", "--flow", "both"))
		second := batchOf(t,
			w.call(t, "batch", write(t, "second.jsonl", chats(3)), "--limit", "openai", "--flow", "both"))
		client := w.redis.Client
		testenv.Serve(t, client, "default")
		s, err := scheduler.New(client, nil, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		expected := func() (time.Duration, *scheduler.Waiting) {
			t.Helper()
			e, err := s.Explain(t.Context(), "default", batchref.Ref{Batch: second, Line: 3}.TaskID())
			if err != nil || e.Waits == nil {
				t.Fatalf("%+v, %v", e, err)
			}
			return e.Until.Sub(e.Now), e.Waits
		}
		if in, at := expected(); in < 150*time.Second || at.Position != 203 {
			t.Errorf("behind 200 requests, one a second: in %v, %+v", in, at)
		}
		if c := w.call(t, "cancel", first); c.code != cli.ExitOK ||
			!strings.Contains(c.out, "200 requests are deleted") {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if in, at := expected(); in > 3*time.Second || at.Position != 3 || at.TokensAhead["requests"] != 2 {
			t.Errorf("behind none of them: in %v, %+v", in, at)
		}
	})
}
