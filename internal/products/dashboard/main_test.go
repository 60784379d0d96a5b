package dashboard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job charges the limit "api", in a flow.
type job struct {
	Text string `json:"text"`
	Flow string `json:"-"`
}

func (job) TaskType() string { return "job" }

func (j job) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Flow: j.Flow, Tokens: reservations.Tokens{"requests": 60}}}
}

// world is a queue with a limit, in memory. No worker runs.
type world struct {
	server    *memredis.Redis
	inspector *asynq.Inspector
	scheduler *scheduler.Scheduler
	config    dashboard.Config
	records   documents.Store // nil without records
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{server: memredis.New(t)}
	client := redis.NewClient(&redis.Options{
		Addr: "memory", Dialer: w.server.Dial, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{
		{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("requests", 60)}},
	}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if w.scheduler, err = scheduler.New(client, limiter, scheduler.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.scheduler.Stop(context.WithoutCancel(t.Context())) })
	w.inspector = asynq.NewInspectorFromRedisClient(client)
	w.config = dashboard.Config{Reader: state.Reader{Limiter: limiter, Scheduler: w.scheduler}, Client: client}
	return w
}

// enqueue enqueues tasks that wait for their limit, and returns the ID of the last one.
func (w *world) enqueue(t *testing.T, jobs ...job) string {
	t.Helper()
	args := make([]tasks.Args, len(jobs))
	for i, j := range jobs {
		args[i] = j
	}
	infos, err := w.scheduler.EnqueueMany(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	return infos[len(infos)-1].ID
}

func (w *world) handler(t *testing.T) http.Handler {
	t.Helper()
	s, err := dashboard.New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	return s.Handler()
}

// paths are all pages, with a task.
func paths(id string) []string {
	return []string{
		"/", "/limit", "/limit?name=api", "/task", "/task?id=" + id, "/batches", "/dead", "/queues", "/queue?name=default",
	}
}

// send sends a request as a browser at 127.0.0.1 does.
func send(
	h http.Handler, method, target string, form url.Values, change ...func(*http.Request),
) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:8383"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
