package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/testenv"
)

// withRecords adds records of dead tasks to a world: three of type mail and one of type job.
func withRecords(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	database := testenv.Database(t)
	w.database = database
	w.config.Dead = deadtasks.New(database, deadtasks.Options{})
	w.config.Batches = batches.New(database, batches.Options{})
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

func TestDeadTasksAreSearched(t *testing.T) {
	t.Parallel()
	w := withRecords(t)
	h := w.handler(t)
	for query, want := range map[string]string{
		"": "task-3 task-2 task-1 task-0", "type=mail": "task-3 task-1 task-0", "error=refused+2": "task-2",
		"id=task-1":   "task-1",
		"queue=other": "", "since=8m30s": "task-3 task-2", "error=.*": "",
	} {
		page := send(h, http.MethodGet, "/dead?"+query, nil).Body.String()
		var got []string
		for part := range strings.SplitSeq(page, `<td class="mono"><a href="/task?`) {
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
	for _, part := range []string{"Attempt 1 failed", "on host:1: 550 refused", "Died", ">Requeue</button>"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page of the task lacks %q:\n%s", part, page)
		}
	}
}

func TestDeadTasksAreRequeued(t *testing.T) {
	t.Parallel()
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
		{url.Values{"id": {"task-2"}, "queue": {"default"}}, http.StatusSeeOther, "/dead?done=requeued&n=1", 1},
		{url.Values{"id": {"task-2"}, "queue": {"default"}}, http.StatusSeeOther, "/dead?done=left&n=0", 1},
		{url.Values{"all": {"1"}, "type": {"mail"}}, http.StatusSeeOther, "/dead?done=requeued&n=3", 4},
	} {
		got := send(h, http.MethodPost, "/dead/requeue", step.form)
		if got.Code != step.status || got.Header().Get("Location") != step.to || pending() != step.pending {
			t.Errorf("%v: status %d to %q, %d pending", step.form, got.Code, got.Header().Get("Location"), pending())
		}
	}
}

func TestBatchesAreShown(t *testing.T) {
	t.Parallel()
	w := withRecords(t)
	_, _, err := w.config.Batches.Open(t.Context(), batches.Batch{
		ID: "abc", Name: "file <b>", Hash: "x", Lines: 4, Requests: 4, Limit: "tenants:a, api", Queue: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := 1; line <= 2; line++ {
		err = w.config.Batches.Finish(t.Context(), batches.Result{
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
		{"/batch?id=ab", `<a href="/limit?name=tenants%3aa">tenants:a</a>, <a href="/limit?name=api">api</a>`},
	} {
		if page := send(h, http.MethodGet, look.path, nil).Body.String(); !strings.Contains(page, look.want) {
			t.Errorf("%s lacks %q:\n%s", look.path, look.want, page)
		}
	}
}

// A view of a batch counts only results that can still change, after the first view.
func TestABatchIsCountedOnce(t *testing.T) {
	t.Parallel()
	w := withRecords(t)
	const lines = 999 // a block of the counter
	_, _, err := w.config.Batches.Open(t.Context(), batches.Batch{
		ID: "abc", Name: "file", Hash: "x", Lines: lines, Requests: lines, Limit: "api", Queue: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	results := make([]batches.Result, lines)
	for i := range results {
		results[i] = batches.Result{Batch: "abc", Line: i + 1, Response: &batches.Response{StatusCode: http.StatusOK}}
	}
	if err = errors.Join(w.config.Batches.FinishMany(t.Context(), results)...); err != nil {
		t.Fatal(err)
	}
	h := w.handler(t)
	for range 2 {
		if page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String(); !strings.Contains(page, "<b>999</b> done") {
			t.Fatalf("the page is\n%s", page)
		}
		if _, err = w.database.Collection("headway_results").DeleteMany(t.Context(), bson.M{}); err != nil {
			t.Fatal(err)
		}
	}
}

// The page of a running batch says when its end is expected.
func TestTheExpectedEndOfABatch(t *testing.T) {
	t.Parallel()
	w := withRecords(t)
	_, _, err := w.config.Batches.Open(t.Context(), batches.Batch{
		ID: "abc", Name: "file", Hash: "x", Lines: 20, Requests: 20, Limit: "api", Queue: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	h := w.handler(t)
	if page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String(); !strings.Contains(page, "not known yet") {
		t.Errorf("without results:\n%s", page)
	}
	for line := 1; line <= 6; line++ {
		err = w.config.Batches.Finish(t.Context(), batches.Result{
			Batch: "abc", Line: line, CustomID: "r", Response: &batches.Response{StatusCode: http.StatusOK},
			Finished: time.Now().Add(time.Duration(9*(line-6)) * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String()
	if !strings.Contains(page, "at the rate of the last minute") {
		t.Errorf("with results:\n%s", page)
	}
}
