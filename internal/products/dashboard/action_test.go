package dashboard_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// rates keeps overrides in memory.
type rates struct{ set []reservations.Override }

func (r *rates) SetOverride(_ context.Context, o reservations.Override) error {
	r.set = append(r.set, o)
	return nil
}

func (r *rates) UnsetOverride(_ context.Context, limit, key, meter string) (bool, error) {
	before := len(r.set)
	r.set = slices.DeleteFunc(r.set, func(o reservations.Override) bool {
		return o.Limit == limit && o.Key == key && o.Meter == meter
	})
	return len(r.set) < before, nil
}

// press sends the form of an action that a page offers, with what a reader fills in. An action that is not there is a
// failure, and so is one that does not say what it does.
func press(t *testing.T, h http.Handler, page, name string, filled url.Values) *httptest.ResponseRecorder {
	t.Helper()
	text := send(h, http.MethodGet, page, nil).Body.String()
	_, form, found := strings.Cut(text, "<summary>"+name+"<span")
	form, _, ended := strings.Cut(form, "</details>")
	if !found || !ended {
		t.Fatalf("%s offers no %q:\n%s", page, name, text)
	}
	path := regexp.MustCompile(`<form method="post" action="([a-z]+)"`).FindStringSubmatch(form)
	if path == nil || !regexp.MustCompile(`<p>[A-Z].{20,}</p>`).MatchString(form) {
		t.Fatalf("%q does not say what it does:\n%s", name, form)
	}
	sent := url.Values{}
	hidden := regexp.MustCompile(`type="hidden" name="([a-z]+)" value="([^"]*)"`)
	for _, field := range hidden.FindAllStringSubmatch(form, -1) {
		sent.Set(field[1], field[2])
	}
	maps.Copy(sent, filled)
	return send(h, http.MethodPost, "/"+path[1], sent)
}

// done fails unless a change was made, and a page says so.
func done(t *testing.T, h http.Handler, got *httptest.ResponseRecorder, notice string) {
	t.Helper()
	to := got.Header().Get("Location")
	if got.Code != http.StatusSeeOther || strings.HasPrefix(to, "/") {
		t.Fatalf("status %d to %q: %s", got.Code, to, got.Body)
	}
	if page := send(h, http.MethodGet, "/"+to, nil); !strings.Contains(page.Body.String(), notice) {
		t.Errorf("%s does not say %q:\n%s", to, notice, page.Body)
	}
}

func TestABucketIsUnblockedAndReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AllowChanges = true
		h := w.handler(t)
		limiter := w.config.Reader.Limiter
		if _, err := inside.Of(limiter).Block(t.Context(), reservations.Charge{Limit: "api"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		done(t, h, press(t, h, "/limit?name=api", "Unblock", nil), "is not blocked any more")
		w.enqueue(t, job{}, job{})
		done(t, h, press(t, h, "/limit?name=api", "Reset", nil), "full again")
		v, err := limiter.View(t.Context(), "api", "")
		if err != nil || v.Blocked > 0 || v.Meters[0].Level != 60 {
			t.Errorf("%+v, %v", v, err)
		}
		if page := send(h, http.MethodGet, "/limit", nil).Body.String(); strings.Contains(page, `method="post"`) {
			t.Error("the list of all limits has actions")
		}
	})
}

func TestARateIsSetAndUnset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AllowChanges = true
		store := &rates{}
		w.config.Overrides = store
		h := w.handler(t)
		set := func(rate, capacity string) *httptest.ResponseRecorder {
			t.Helper()
			return press(t, h, "/limit?name=api", "Set requests", url.Values{"rate": {rate}, "capacity": {capacity}})
		}
		for _, wrong := range [][2]string{{"", ""}, {"fast", ""}, {"-5/s", ""}, {"30/m", "-1"}, {"30/m", "many"}} {
			if got := set(wrong[0], wrong[1]); got.Code != http.StatusUnprocessableEntity || len(store.set) > 0 {
				t.Errorf("%q: status %d, set %v: %s", wrong, got.Code, store.set, got.Body)
			}
		}
		done(t, h, set("30/m", "10"), "The rate is set.")
		limit, err := inside.Of(w.config.Reader.Limiter).Limits().For("api", "")
		if err != nil || limit.Meters[0].Rate != 30 || limit.Meters[0].Cap() != 10 || store.set[0].By != "the page" {
			t.Errorf("%+v, %+v, %v", limit, store.set, err)
		}
		done(t, h, press(t, h, "/limit?name=api", "Unset requests", nil), "The rate is unset.")
		limit, err = inside.Of(w.config.Reader.Limiter).Limits().For("api", "")
		if err != nil || limit.Meters[0].Rate != 60 || len(store.set) > 0 {
			t.Errorf("%+v, %+v, %v", limit, store.set, err)
		}
		for _, form := range []url.Values{
			{"limit": {"none"}, "meter": {"requests"}, "rate": {"1/s"}}, {"limit": {"api"}, "meter": {"none"}, "rate": {"1/s"}},
		} {
			if got := send(h, http.MethodPost, "/set", form); got.Code < 400 || len(store.set) > 0 {
				t.Errorf("%v: status %d", form, got.Code)
			}
		}
	})
}

func TestTasksAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		h := w.handler(t)
		id := w.enqueue(t, job{}, job{})
		form := url.Values{"queue": {"default"}, "id": {id}}
		done(t, h, press(t, h, "/task?id="+id, "Delete", nil), "1 task deleted.")
		if _, err := w.inspector.GetTaskInfo("default", id); err == nil {
			t.Error("the task is still there")
		}
		done(t, h, press(t, h, "/task?id=task-2", "Delete", nil), "1 task deleted.")
		if n, err := w.config.Dead.Count(t.Context(), deadtasks.Filter{}); err != nil || n != 3 {
			t.Errorf("%d dead tasks, %v", n, err)
		}
		if got := send(h, http.MethodPost, "/delete", form); got.Header().Get("Location") == "" ||
			!strings.Contains(got.Header().Get("Location"), "done=kept") {
			t.Errorf("a second time: status %d to %q", got.Code, got.Header().Get("Location"))
		}
		if got := send(h, http.MethodPost, "/delete", url.Values{"id": {id}}); got.Code != http.StatusNotFound {
			t.Errorf("without a queue: status %d", got.Code)
		}
	})
}

// A request of a batch has the actions of its batch alone: deleted by itself it would be missing there.
func TestARequestOfABatchIsNotDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AllowChanges = true
		payload := `{"custom_id":"a","request":{"model":"m"},"batch":{"id":"abc","line":1}}`
		client := asynq.NewClientFromRedisClient(w.config.Client)
		if _, err := client.Enqueue(asynq.NewTask("llm:call", []byte(payload)), asynq.TaskID("abc-1-0")); err != nil {
			t.Fatal(err)
		}
		page := send(w.handler(t), http.MethodGet, "/task?id=abc-1-0", nil).Body.String()
		if !strings.Contains(page, `href="batch?id=abc"`) || strings.Contains(page, `action="delete"`) {
			t.Errorf("the page is\n%s", page)
		}
	})
}

// changer counts the changes of batches.
type changer struct{ cancelled, retried []string }

func (c *changer) Cancel(_ context.Context, b batches.Batch) (int, error) {
	c.cancelled = append(c.cancelled, b.ID)
	return 3, nil
}

func (c *changer) Retry(_ context.Context, b batches.Batch) (int, error) {
	c.retried = append(c.retried, b.ID)
	return 1, nil
}

func TestABatchIsCancelledAndRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		changes := &changer{}
		w.config.Change = changes
		b := w.batch(t, "reviews.jsonl", 4, "api")
		h := w.handler(t)
		if page := send(h, http.MethodGet, "/batch?id=abc", nil).Body.String(); strings.Contains(page, `action="retry"`) {
			t.Error("a batch without failures can be retried")
		}
		err := w.config.Batches.Finish(t.Context(), batches.Result{
			Batch: b.ID, Line: 1, Failure: &batches.Failure{Code: "x", Message: "no"},
		})
		if err != nil {
			t.Fatal(err)
		}
		done(t, h, press(t, h, "/batch?id=abc", "Retry 1 failure", nil), "1 failed request sent again.")
		done(t, h, press(t, h, "/batch?id=abc", "Cancel", nil), "The batch is cancelled: 3 requests deleted.")
		if len(changes.retried) != 1 || len(changes.cancelled) != 1 {
			t.Errorf("%+v", changes)
		}
		if got := send(h, http.MethodPost, "/cancel", url.Values{"batch": {"none"}}); got.Code != http.StatusNotFound {
			t.Errorf("an unknown batch: status %d", got.Code)
		}
		w.config.Change = nil
		page := send(w.handler(t), http.MethodGet, "/batch?id=abc", nil).Body.String()
		if strings.Contains(page, "<form method") {
			t.Error("a page that can't change batches offers it")
		}
	})
}

// The page works below a path: all its links are relative.
func TestBelowAPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AllowChanges = true
		id := w.enqueue(t, job{Flow: "acme"})
		h := http.StripPrefix("/headway", w.handler(t))
		absolute := regexp.MustCompile(`(?:href|src|action)="(?:/|[a-z]+:)[^"]*"`)
		for _, path := range paths(id) {
			got := send(h, http.MethodGet, "/headway"+path, nil)
			if found := absolute.FindString(got.Body.String()); got.Code != http.StatusOK || found != "" {
				t.Errorf("%s: status %d, %s", path, got.Code, found)
			}
		}
		got := send(h, http.MethodPost, "/headway/pause", url.Values{"queue": {"default"}})
		if to := got.Header().Get("Location"); to != "queues?done=paused&n=1" {
			t.Errorf("a change leads to %q", to)
		}
	})
}
