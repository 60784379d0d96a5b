package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/internal/text/redact"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

const hostile = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>\x1b[2J\u202eevil\u2066"

// Texts of tasks are shown as texts, on every page, and none of their characters turns what stands beside it.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.enqueue(t, job{Text: hostile, Flow: "flow <script>alert(1)</script>"})
		client := asynq.NewClientFromRedisClient(w.config.Client)
		const taskID = `id "<script>alert(1)</script>` + "\u202e"
		task := asynq.NewTask("type <script>alert(1)</script>\u202e", []byte(hostile))
		if _, err := client.EnqueueContext(t.Context(), task,
			asynq.TaskID(taskID), asynq.Queue(`queue <script>alert(1)</script>`)); err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		seen := 0
		for _, path := range append(paths(id), "/task?id="+url.QueryEscape(taskID), "/limit?name="+url.QueryEscape(hostile),
			"/queue?name="+url.QueryEscape("queue <script>alert(1)</script>"), "/dead?error="+url.QueryEscape(hostile),
			"/queue?name="+url.QueryEscape(hostile), "/?done="+url.QueryEscape(hostile)) {
			page := send(h, http.MethodGet, path, nil).Body.String()
			if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img src=x") {
				t.Errorf("%s has the script:\n%s", path, page)
			}
			seen += strings.Count(page, "&lt;script&gt;alert(1)")
			for _, r := range page {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
					t.Errorf("%s has the character %U", path, r)
				}
			}
		}
		if seen < 8 {
			t.Errorf("the texts are shown %d times only", seen)
		}
	})
}

// A payload that has a secret in it is shown without.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const secret = `sk-s3cret"<value>`
		w := newWorld(t)
		id := w.enqueue(t, job{Text: "key " + secret})
		w.config.Secrets = redact.New(secret)
		page := send(w.handler(t), http.MethodGet, "/task?id="+id, nil).Body.String()
		if strings.Contains(page, "s3cret") || !strings.Contains(page, "key ***") {
			t.Errorf("the page shows\n%s", page)
		}
	})
}

func TestTaskIsExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.enqueue(t, job{}, job{Flow: "acme"}, job{Flow: "acme", Text: "the third"})
		testenv.Serve(t, w.config.Client, "default")
		page := send(w.handler(t), http.MethodGet, "/task?id="+id, nil)
		for _, want := range []string{
			"waits for limit api: it is number 3 of 3 in its waitlist", "Waits for its limit", "Expected to go on",
			"acme, weight 1, 2 tasks", "the third",
		} {
			if !strings.Contains(page.Body.String(), want) {
				t.Errorf("%q is missing in status %d:\n%s", want, page.Code, page.Body)
			}
		}
	})
}

// A list of tasks is of what its search names, in the words of `headway explain`. A limit and a flow lead to their
// tasks.
func TestTasksAreSearched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		w.enqueue(t, job{Flow: "a"}, job{Flow: "a"}, job{Flow: "b"})
		plain := func(taskType string, o ...asynq.Option) {
			t.Helper()
			client := asynq.NewClientFromRedisClient(w.config.Client)
			if _, err := client.EnqueueContext(ctx, asynq.NewTask(taskType, nil), o...); err != nil {
				t.Fatal(err)
			}
		}
		plain("mail", asynq.Queue("mails"), asynq.TaskID("ready"))
		plain("mail", asynq.Queue("mails"), asynq.TaskID("later"), asynq.ProcessIn(time.Hour))
		plain("mail", asynq.Queue("mails"), asynq.TaskID("dead"))
		if err := w.inspector.ArchiveTask("mails", "dead"); err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		for query, want := range map[string]int{
			"": 5, "?limit=api": 3, "?limit=other": 0, "?flow=a": 2, "?limit=api&flow=b": 1, "?queue=mails": 2, "?type=job": 3,
			"?state=pending": 1, "?state=archived": 1, "?state=archived&limit=api": 0, "?reason=unserved": 1,
			"?reason=limit": 3, "?reason=scheduled": 1, "?batch=none": 0, "?limit=api&type=mail": 0, "?limit=api&queue=mails": 0,
		} {
			page := send(h, http.MethodGet, "/task"+query, nil).Body.String()
			if got := strings.Count(page, `<td class="mono">`); got != want {
				t.Errorf("%q finds %d tasks, want %d in\n%s", query, got, want, page)
			}
		}
		page := send(h, http.MethodGet, "/task?limit=api", nil).Body.String()
		for _, want := range []string{"waits for limit api: it is number 1 of 3 in its waitlist", "number 3 of 3"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %q in\n%s", want, page)
			}
		}
		page = send(h, http.MethodGet, "/limit?name=api", nil).Body.String()
		for _, want := range []string{
			"No worker takes from queue default: 3 tasks wait.", `href="task?limit=api"`, `href="task?flow=a&amp;limit=api"`,
		} {
			if !strings.Contains(page, want) {
				t.Errorf("no %q in\n%s", want, page)
			}
		}
		for _, query := range []string{"?state=odd", "?reason=odd"} {
			if got := send(h, http.MethodGet, "/task"+query, nil); got.Code != http.StatusNotFound {
				t.Errorf("%s: status %d", query, got.Code)
			}
		}
	})
}

// A list reads no more of a long backlog than it shows, and says that it is cut.
func TestALongBacklogIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enqueue(t, slices.Repeat([]job{{Flow: "a"}}, 300)...)
		h := w.handler(t)
		for query, want := range map[string]string{
			"": "The first 50 are shown", "?limit=api": "The first 50 are shown",
			"?limit=api&reason=blocked": "Only the beginning of the backlog was searched",
		} {
			if page := send(h, http.MethodGet, "/task"+query, nil).Body.String(); !strings.Contains(page, want) {
				t.Errorf("%q: no %q in\n%.3000s", query, want, page)
			}
		}
	})
}

// A page that lists tasks asks no queue for tasks that it does not have, by the look at the queues that it shares.
func TestEmptyQueuesAreNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.enqueue(t, job{})
		const queues = 100
		for i := range queues {
			if err := w.server.Client.SAdd(t.Context(), "asynq:queues", strconv.Itoa(i)).Err(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := dashboard.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		send(s.Handler(), http.MethodGet, "/", nil)
		s.KeepLook()
		before := w.server.Commands()
		if page := send(s.Handler(), http.MethodGet, "/task", nil).Body.String(); !strings.Contains(page, id) {
			t.Fatalf("the page is\n%s", page)
		}
		if asked := w.server.Commands() - before; asked > queues {
			t.Errorf("a view takes %d commands", asked)
		}
	})
}

// Without records, the page lists asynq's archive: it reads no more than it shows, and knows how many there are.
func TestTheArchiveIsListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enqueue(t, make([]job, 1100)...)
		if _, err := w.inspector.ArchiveAllScheduledTasks("default"); err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		for query, want := range map[string]string{
			"": "1\u202f100 tasks, the first 100 are shown", "?type=job": "1\u202f000 tasks, the first 100 are shown",
			"?type=mail": "0 tasks", "?since=1h": "0 tasks", // none of them has failed
		} {
			if page := send(h, http.MethodGet, "/dead"+query, nil).Body.String(); !strings.Contains(page, want) {
				t.Errorf("%q: no %q in\n%.3000s", query, want, page)
			}
		}
	})
}

func TestUnknownThings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enqueue(t, job{})
		h := w.handler(t)
		for _, path := range []string{
			"/task?id=nothing", "/task?id=nothing&queue=none", "/limit?name=none", "/limit?name=none:key", "/queue?name=none",
			"/batch?id=none", "/nothing", "/assets/nothing",
		} {
			if got := send(h, http.MethodGet, path, nil); got.Code != http.StatusNotFound {
				t.Errorf("%s: status %d", path, got.Code)
			}
		}
	})
}

// A task that waits for a shard of a bucket has a link to the page of the bucket.
func TestLinkOfAShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
			Name: "api", Shards: 2, Meters: []reservations.Meter{reservations.PerMinute("requests", 120)},
		}}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if w.scheduler, err = scheduler.New(w.config.Client, limiter, scheduler.Config{}); err != nil {
			t.Fatal(err)
		}
		w.config.Reader = state.Reader{Limiter: limiter, Scheduler: w.scheduler}
		id := w.enqueue(t, job{}, job{}, job{})
		h := w.handler(t)
		page := send(h, http.MethodGet, "/task?id="+id, nil).Body.String()
		if !strings.Contains(page, `<a class="name" href="limit?name=api">api#`) {
			t.Errorf("the task has no link to its limit:\n%s", page)
		}
		if got := send(h, http.MethodGet, "/limit?name=api", nil); got.Code != http.StatusOK {
			t.Errorf("the limit: status %d", got.Code)
		}
	})
}

// While Redis is away, the first page says so, and no page says that there is nothing.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.handler(t)
		w.server.Refuse()
		got := send(h, http.MethodGet, "/", nil)
		if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "Queues can&#39;t be read: ") {
			t.Errorf("status %d:\n%s", got.Code, got.Body)
		}
		for _, path := range []string{
			"/task?id=x", "/task", "/queues", "/queue?name=default", "/dead", "/limit", "/limit?name=api",
		} {
			if got = send(h, http.MethodGet, path, nil); got.Code != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d", path, got.Code)
			}
		}
	})
}

// A stream sends a page at once, and again when it has changed.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue(t, job{})
	server := httptest.NewServer(w.handler(t))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		server.URL+"/events?at="+url.QueryEscape("/queue?name=default"), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("the stream is %q", kind)
	}
	lines := bufio.NewScanner(answer.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			data, found := strings.CutPrefix(lines.Text(), "data: ")
			var page string
			if found && json.Unmarshal([]byte(data), &page) == nil && strings.Contains(page, want) {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", want, lines.Err())
	}
	next(">no worker<")
	if err = w.inspector.PauseQueue("default"); err != nil {
		t.Fatal(err)
	}
	next(">paused<")
}

func TestEventsOfWhatIsNoPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newWorld(t).handler(t)
		for _, at := range []string{
			"", "/nothing", "/events?at=/", "http://evil.example/", "//evil.example/", "/requeue", "%",
		} {
			if got := send(h, http.MethodGet, "/events?at="+url.QueryEscape(at), nil); got.Code != http.StatusBadRequest {
				t.Errorf("%q: status %d", at, got.Code)
			}
		}
	})
}
