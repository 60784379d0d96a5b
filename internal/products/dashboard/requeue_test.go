package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/text/redact"
)

// withRecords adds records of dead tasks to a world: three of type mail and one of type job.
func withRecords(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.records = redisdocs.New(w.config.Client)
	w.config.Dead = deadtasks.New(w.records, deadtasks.Options{})
	w.config.Batches = batches.New(w.records, batches.Options{})
	w.config.AllowChanges = true
	err := errors.Join(w.config.Dead.EnsureIndexes(t.Context()), w.config.Batches.EnsureIndexes(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{"mail", "mail", "job", "mail"} {
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		err := w.config.Dead.Recorder().Record(t.Context(), []deadletter.Task{{
			ID: fmt.Sprintf("task-%d", i), Queue: "default", Type: kind, Payload: []byte(`{}`), At: at, MaxRetry: 25,
			Cause: deadletter.CausePermanent,
			Last:  deadletter.Attempt{Number: 1, At: at, Error: fmt.Sprintf("550 refused %d", i), Worker: "host:1"},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// batch opens batch abc.
func (w *world) batch(t *testing.T, name string, lines int, limit string) batches.Batch {
	t.Helper()
	b, _, err := w.config.Batches.Open(t.Context(), batches.Batch{
		ID: "abc", Name: name, Hash: "x", Lines: lines, Requests: lines, Limit: limit, Queue: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDeadTasksAreSearched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		h := w.handler(t)
		for query, want := range map[string]string{
			"": "task-3 task-2 task-1 task-0", "type=mail": "task-3 task-1 task-0", "error=refused+2": "task-2",
			"id=task-1":   "task-1",
			"queue=other": "", "since=8m30s": "task-3 task-2", "error=.*": "",
		} {
			page := send(h, http.MethodGet, "/dead?"+query, nil).Body.String()
			var got []string
			for part := range strings.SplitSeq(page, `<td class="mono"><a href="task?`) {
				if _, rest, found := strings.Cut(part, `">`); found && strings.HasPrefix(part, "id=") {
					id, _, _ := strings.Cut(rest, "<")
					got = append(got, id)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%q finds %q, want %q", query, got, want)
			}
		}
		page := send(h, http.MethodGet, "/", nil).Body.String()
		if !strings.Contains(page, "4 tasks died in the last hour.") {
			t.Error("the first page does not tell of the dead tasks")
		}
		page = send(h, http.MethodGet, "/task?id=task-2", nil).Body.String()
		for _, part := range []string{"Attempt 1 failed", "on host:1: 550 refused", "Died", ">Requeue<span"} {
			if !strings.Contains(page, part) {
				t.Errorf("the page of the task lacks %q:\n%s", part, page)
			}
		}
	})
}

func TestDeadTasksAreRequeued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		h := w.handler(t)
		pending := func() int {
			return int(w.config.Client.LLen(t.Context(), "asynq:{default}:pending").Val())
		}
		for _, step := range []struct {
			form    url.Values
			status  int
			to      string
			pending int
		}{
			{url.Values{}, http.StatusNotFound, "", 0},
			{url.Values{"id": {"task-2"}, "queue": {"default"}}, http.StatusSeeOther, "dead?done=requeued&n=1", 1},
			{url.Values{"id": {"task-2"}, "queue": {"default"}}, http.StatusSeeOther, "dead?done=left&n=0", 1},
			{url.Values{"all": {"1"}, "type": {"mail"}}, http.StatusSeeOther, "dead?done=requeued&n=3", 4},
		} {
			got := send(h, http.MethodPost, "/requeue", step.form)
			if got.Code != step.status || got.Header().Get("Location") != step.to || pending() != step.pending {
				t.Errorf("%v: status %d to %q, %d pending", step.form, got.Code, got.Header().Get("Location"), pending())
			}
		}
	})
}

func TestBatchesAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		w.batch(t, "file <b>", 4, "tenants:a, api")
		for line := 1; line <= 2; line++ {
			err := w.config.Batches.Finish(t.Context(), batches.Result{
				Batch: "abc", Line: line, CustomID: "r", Failure: &batches.Failure{Code: "x", Message: "no answer <b>"},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		h := w.handler(t)
		for _, look := range []struct{ path, want string }{
			{"/", "2 requests of batch file &lt;b&gt; failed."},
			{"/batches", `aria-label="0 of 4 done, 2 failed"`},
			{"/batch?id=ab", "no answer &lt;b&gt;"},
			{"/batch?id=ab", `<a href="limit?name=tenants%3aa">tenants:a</a>, <a href="limit?name=api">api</a>`},
		} {
			if page := send(h, http.MethodGet, look.path, nil).Body.String(); !strings.Contains(page, look.want) {
				t.Errorf("%s lacks %q:\n%s", look.path, look.want, page)
			}
		}
	})
}

// The page of a request that has ended shows its stored result, and does so when asynq has forgotten the task. A result
// of another round is not shown.
func TestAnswersAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		w.batch(t, "file", 2, "api")
		const secret = "s3cret"
		w.config.Secrets = redact.New(secret)
		for line, r := range []batches.Result{
			{
				CustomID: "good", Model: "gpt-x", Usage: batches.Usage{Reserved: 1200, Used: 57, Prompt: 42, Completion: 15},
				Response: &batches.Response{StatusCode: http.StatusOK, RequestID: "req-9", Body: []byte(
					`{"choices":[{"message":{"content":"The <b>answer</b> of ` + secret + `"}}]}`)},
			},
			{CustomID: "bad", Failure: &batches.Failure{Code: "x", Message: "no answer <b>"}},
		} {
			r.Batch, r.Line = "abc", line+1
			if err := w.config.Batches.Finish(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		h := w.handler(t)
		for id, wants := range map[string][]string{
			"abc-1-0": {
				"request &#34;good&#34; of its batch was answered", ">The &lt;b&gt;answer&lt;/b&gt; of ***<", "gpt-x", "req-9",
				"tokens reserved</th><td>1\u202f200<", "tokens used</th><td>57<", "prompt tokens</th><td>42<",
				"completion tokens</th><td>15<", `href="batch?id=abc"`, "As it came",
			},
			"abc-2-0": {"request &#34;bad&#34; of its batch has failed: no answer &lt;b&gt;"},
		} {
			page := send(h, http.MethodGet, "/task?id="+id, nil).Body.String()
			for _, want := range wants {
				if !strings.Contains(page, want) {
					t.Errorf("%s lacks %q:\n%s", id, want, page)
				}
			}
		}
		for _, query := range []string{"abc-1-1", "abc-3-0", "none-1-0", "abc-1-0&queue=other"} {
			if got := send(h, http.MethodGet, "/task?id="+query, nil); got.Code != http.StatusNotFound {
				t.Errorf("%s: status %d", query, got.Code)
			}
		}
	})
}

// A view of a batch counts only results that can still change, after the first view.
func TestABatchIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		const lines = 999 // a block of the counter
		w.batch(t, "file", lines, "api")
		results := make([]batches.Result, lines)
		for i := range results {
			results[i] = batches.Result{Batch: "abc", Line: i + 1, Response: &batches.Response{StatusCode: http.StatusOK}}
		}
		if err := errors.Join(w.config.Batches.FinishMany(t.Context(), results)...); err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		for range 2 {
			if page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String(); !strings.Contains(page, "<b>999</b> done") {
				t.Fatalf("the page is\n%s", page)
			}
			stored := w.records.Collection("results")
			everything := documents.InKeys(stored, documents.Prefix("abc/"))
			for d, err := range (documents.Reader{Collection: stored, Page: everything}).All(t.Context()) {
				if err == nil {
					_, err = stored.Delete(t.Context(), d.Key, d.Version)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// The page of a running batch says when its end is expected.
func TestTheExpectedEndOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		w.batch(t, "file", 20, "api")
		h := w.handler(t)
		if page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String(); !strings.Contains(page, "not known yet") {
			t.Errorf("without results:\n%s", page)
		}
		for line := 1; line <= 6; line++ {
			err := w.config.Batches.Finish(t.Context(), batches.Result{
				Batch: "abc", Line: line, CustomID: "r", Response: &batches.Response{StatusCode: http.StatusOK},
				Finished: time.Now().Add(time.Duration(9*(line-6)) * time.Second),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		const end = "at the rate of the last minute"
		page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String()
		if !strings.Contains(page, end) {
			t.Errorf("with results:\n%s", page)
		}
		// In a paused queue no end is expected, and the page says why.
		_, err := asynq.NewClientFromRedisClient(w.config.Client).Enqueue(asynq.NewTask("job", nil))
		if err == nil {
			err = asynq.NewInspectorFromRedisClient(w.config.Client).PauseQueue("default")
		}
		if err != nil {
			t.Fatal(err)
		}
		paused := w.handler(t) // it has no look of before
		for _, path := range []string{"/batch?id=abc", "/batches", "/"} {
			page = send(paused, http.MethodGet, path, nil).Body.String()
			if strings.Contains(page, end) || strings.Contains(page, `small">about `) ||
				path != "/batches" && !strings.Contains(page, "Queue default is paused: 1 task waits.") {
				t.Errorf("%s of a paused queue:\n%s", path, page)
			}
		}
	})
}

// A batch that has stopped at its failures says so on every page.
func TestAStoppedBatchIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		b, _, err := w.config.Batches.Open(t.Context(), batches.Batch{
			ID: "abc", Name: "reviews.jsonl", Hash: "x", Lines: 9, Requests: 9, Limit: "api", Queue: "default", FailuresMost: 1,
		})
		if err == nil {
			err = w.config.Batches.Finish(t.Context(), batches.Result{
				Batch: b.ID, Line: 1, Failure: &batches.Failure{Code: "x", Message: "no"},
			})
		}
		if err == nil {
			_, _, err = w.config.Batches.Counter("abc").Bound(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		for path, want := range map[string]string{
			"/":             "1 request of batch reviews.jsonl failed, and it has stopped, as --max-failures says.",
			"/batches":      `<span class="tag bad">stopped</span>`,
			"/batch?id=abc": "stopped at 1 failed request (--max-failures). Enqueue its file again to go on.",
		} {
			if page := send(h, http.MethodGet, path, nil).Body.String(); !strings.Contains(page, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, page)
			}
		}
	})
}
