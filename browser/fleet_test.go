package browser_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// hostile is what no page may run, nor a reader mistake: a script, a tag that runs one, and a character that turns the
// direction of writing.
const hostile = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u202etxt.exe"

// report is a task that waits for a limit, in the flow of its tenant.
type report struct {
	Tenant string `json:"tenant"`
	Text   string `json:"text"`
}

func (report) TaskType() string { return "report" }

func (r report) Charges() []reservations.Charge {
	return []reservations.Charge{{
		Limit: "openai", Flow: r.Tenant, Tokens: reservations.Tokens{"requests": 1, "tokens": 900},
	}}
}

// mail is a task that fails for good.
type mail struct {
	To string `json:"to"`
}

func (mail) TaskType() string { return "mail" }

// fleet is a fleet with something of everything, and its pages.
type fleet struct {
	client    *redis.Client
	inspector *asynq.Inspector
	scheduler *scheduler.Scheduler
	dead      *deadtasks.Store
	config    dashboard.Config
	waiting   string // a task that waits
	failed    string // a task that died
	fix       func() // mails go well from then on
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	options, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	database := testenv.Database(t)
	f := &fleet{
		client: client, inspector: asynq.NewInspectorFromRedisClient(client),
		dead: deadtasks.New(mongostore.Documents(database), deadtasks.Options{}),
	}
	results := batches.New(mongostore.Documents(database), batches.Options{})
	store, err := redisstore.Open(t.Context(), client)
	if err = errors.Join(err, f.dead.EnsureIndexes(t.Context()), results.EnsureIndexes(t.Context())); err != nil {
		t.Fatal(err)
	}
	limiter, err := reservations.New(store, []reservations.Limit{
		{
			Name: "openai", Weights: map[string]float64{"acme": 3},
			Meters: []reservations.Meter{
				reservations.PerMinute("requests", 500),
				{Name: "tokens", Rate: 2000, Period: time.Minute, Capacity: 20_000}, // so that the last ones wait for long
			},
		},
		{Name: "search", Meters: []reservations.Meter{reservations.PerSecond("requests", 5), reservations.InFlight(20)}},
	}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if f.scheduler, err = scheduler.New(client, limiter, scheduler.Config{}); err != nil {
		t.Fatal(err)
	}
	f.config = dashboard.Config{
		Reader: state.Reader{Limiter: limiter, Scheduler: f.scheduler}, Client: client, Batches: results, Dead: f.dead,
		Overrides: store,
	}
	f.work(t, limiter)
	f.enqueue(t)
	f.batch(t, results)
	f.past(t)
	return f
}

// past writes the last hour into the ring of samples, as a page that has run for so long has.
func (f *fleet) past(t *testing.T) {
	t.Helper()
	now := time.Now().Unix() / 10 * 10
	for i := int64(1); i < 360; i++ {
		at := now - 10*i
		waiting := max(0, 300-int(i)) + int(30*math.Sin(float64(i)/9))
		if i > 200 && i < 230 {
			continue // nothing was recorded
		}
		text := fmt.Sprintf(`{"t":%d,"a":%d,"p":%d,"w":%d,"d":5,"n":%d,"b":{"openai":{"w":%d,"u":%.2f}}}`, at,
			12+int(6*math.Sin(float64(i)/5)), i/20%4, max(0, waiting), 9000-7*i-i*i/90, max(0, waiting),
			0.6+0.4*math.Sin(float64(i)/30))
		if err := f.client.HSet(t.Context(), "headway:{dashboard}:history", (at/10)%360, text).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// work starts a worker that kills mails.
func (f *fleet) work(t *testing.T, limiter *reservations.Limiter) {
	t.Helper()
	w, err := worker.New(f.client, limiter, worker.Config{
		Concurrency: 20, Queues: map[string]int{"default": 1, "mail": 1}, Dead: f.dead, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	fixed := make(chan struct{})
	f.fix = sync.OnceFunc(func() { close(fixed) })
	worker.Handle(w, func(context.Context, *worker.Job[report]) error { return nil })
	worker.Handle(w, func(_ context.Context, job *worker.Job[mail]) error {
		select {
		case <-fixed:
			return nil
		default:
			return tasks.Permanent(fmt.Errorf("550 no such mailbox: %s %s", job.Args.To, hostile))
		}
	})
	if err = w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if err := w.Stop(stop); err != nil {
			t.Error(err)
		}
	})
}

// enqueue enqueues tasks that wait in flows, mails that die, and tasks of a paused queue.
func (f *fleet) enqueue(t *testing.T) {
	t.Helper()
	for i := range 60 {
		r := report{Tenant: []string{"acme", "globex", "initech"}[i%3], Text: "Report 7"}
		if i == 59 {
			r.Text = hostile
		}
		info, err := f.scheduler.Enqueue(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		f.waiting = info.ID
	}
	for i := range 5 {
		to := mail{To: fmt.Sprintf("user%d@example.com", i)}
		info, err := f.scheduler.Enqueue(t.Context(), to, tasks.Options{Queue: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		f.failed = info.ID
	}
	for range 3 {
		if _, err := f.scheduler.Enqueue(t.Context(), mail{To: "later"}, tasks.Options{Queue: "nightly"}); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		n, err := f.dead.Count(t.Context(), deadtasks.Filter{})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d tasks have died: %v", n, err)
		}
		if n == 5 {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	if err := f.inspector.PauseQueue("nightly"); err != nil {
		t.Fatal(err)
	}
}

// batch stores a batch that is half done.
func (f *fleet) batch(t *testing.T, results *batches.Store) {
	t.Helper()
	b, _, err := results.Open(t.Context(), batches.Batch{
		ID: "3f2a9c1e", Name: "godoc.jsonl", Hash: "x", Lines: 40, Requests: 40, Limit: "openai", Queue: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := 1; line <= 22; line++ {
		r := batches.Result{
			Batch: b.ID, Line: line, CustomID: fmt.Sprintf("request-%d", line),
			Response: &batches.Response{StatusCode: 200, Body: []byte(`{}`)}, Usage: batches.Usage{Reserved: 500, Used: 180},
		}
		if line%9 == 0 {
			r.Response, r.Failure = nil, &batches.Failure{Code: "timeout", Message: "no answer within 30s " + hostile}
		}
		if err = results.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	stopped, _, err := results.Open(t.Context(), batches.Batch{
		ID: "77c0ffee", Name: "a-very-long-name-of-a-file-with-reviews-of-2026-11.jsonl", Hash: "y", Lines: 9, Requests: 9,
		Limit: "openai", Queue: "default", FailuresMost: 1,
	})
	if err == nil {
		failed := batches.Failure{Code: "bad", Message: "no such model"}
		err = results.Finish(t.Context(), batches.Result{Batch: stopped.ID, Line: 1, CustomID: "request-1", Failure: &failed})
	}
	if err == nil {
		_, _, err = results.Counter(stopped.ID).Bound(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves the page until the test ends, and returns its address.
func (f *fleet) serve(t *testing.T, changes bool) string {
	t.Helper()
	f.config.AllowChanges = changes
	server, err := dashboard.New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, on) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + on.Addr().String()
}
