package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/test/testenv"
)

const (
	queue = "default"
	// patience is how long a test waits for an event. It judges no speed: asynq recovers the tasks of a killed worker
	// after up to two minutes, and the machine may be slow.
	patience = 4 * time.Minute
	// pollEvery is the interval of polling another process, which sends no events.
	pollEvery = 100 * time.Millisecond
)

// setting is the settings of a test.
type setting struct {
	// All starts are judged by the limit "openai" of requests: rate and capacity. A zero rate means a limit that changes
	// or has other meters.
	rate, capacity float64

	limit       string   // in headway.yaml, the YAML behind "openai: ". Empty means rate and capacity.
	others      string   // further limits, whole lines of YAML.
	provider    []string // flags of the provider, which has no limits of its own without.
	concurrency int      // of each worker. Zero means 50.
	cutRedis    bool     // workers reach Redis through a proxy.
	cutMongo    bool     // workers reach MongoDB through a proxy.
}

// requestsOnly is the limit of most tests.
var requestsOnly = setting{rate: 50, capacity: 5}

// world is the environment of one test: Redis, a database, a counting provider, settings, and workers.
type world struct {
	setting    setting
	redis      *testenv.RedisServer
	redisProxy *testenv.Proxy // nil without cutRedis
	mongoProxy *testenv.Proxy // nil without cutMongo
	redisURL   string         // for workers
	mongoURI   string         // for workers
	config     string         // name of headway.yaml
	url        string         // of the provider
	provider   *process
	inspector  *asynq.Inspector
	program    string     // of the workers; "headway" when empty
	flags      []string   // more flags of the workers
	workers    []*process // all started workers
	// clocksDiffer means that the clocks of the workers are not that of the store.
	clocksDiffer bool
}

// yaml returns the headway.yaml of the setting.
func (s setting) yaml() string {
	if s.concurrency == 0 {
		s.concurrency = 50
	}
	if s.limit == "" {
		s.limit = fmt.Sprintf("{meters: {requests: {rate: %g/s, capacity: %g}}}", s.rate, s.capacity)
	}
	return fmt.Sprintf("limits:\n  openai: %s\n%sconcurrency: %d\n", s.limit, s.others, s.concurrency)
}

func newWorld(t *testing.T, s setting) *world {
	t.Helper()
	uri, database := testenv.Mongo(t)
	w := &world{setting: s, redis: testenv.StartRedisServer(t)}
	w.redisURL, w.mongoURI = w.redis.URL(), mongoURI(t, uri, database, "")
	if s.cutRedis {
		w.redisProxy = testenv.NewProxy(t, w.redis.Addr())
		w.redisURL = "redis://" + w.redisProxy.Addr() + "/0"
	}
	if s.cutMongo {
		w.mongoProxy = testenv.NewProxy(t, mongoHost(t, uri))
		w.mongoURI = mongoURI(t, uri, database, w.mongoProxy.Addr())
	}
	w.config = writeFile(t, "headway.yaml", s.yaml())
	w.inspector = asynq.NewInspector(asynq.RedisClientOpt{Addr: w.redis.Addr()})
	t.Cleanup(func() { _ = w.inspector.Close() })
	w.startProvider(t, s.provider)
	return w
}

func (w *world) startProvider(t *testing.T, flags []string) {
	t.Helper()
	w.provider = spawn(t, "provider", "provider", []string{}, flags...)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.provider.out.first:
	case <-w.provider.exited:
		t.Fatal("the provider ended at its start")
	case <-timer.C:
		t.Fatal("the provider does not start")
	}
	w.url, _, _ = strings.Cut(w.provider.out.String(), "\n")
}

// env returns the environment of a program. The enqueuer never uses a proxy.
func (w *world) env(redisURL string) []string {
	return []string{
		"REDIS_URL=" + redisURL, "MONGODB_URI=" + w.mongoURI, "OPENAI_API_KEY=test", "OPENAI_BASE_URL=" + w.url,
		"TMPDIR=" + os.TempDir(), "GORACE=atexit_sleep_ms=50", // without the race detector's delay of a second at the end
	}
}

// start starts n more workers, which log all events.
func (w *world) start(t *testing.T, n int) {
	t.Helper()
	for range n {
		w.startOne(t, cmp.Or(w.program, "headway"), w.env(w.redisURL))
	}
}

// startOne starts one more worker, with this program and environment.
func (w *world) startOne(t *testing.T, program string, env []string) {
	t.Helper()
	w.workers = append(w.workers, spawn(t, fmt.Sprintf("worker%d", len(w.workers)+1), program, env,
		append([]string{"worker", "--config", w.config, "--log-level", "debug", "--log-format", "json"}, w.flags...)...))
}

// enqueue sends a batch, and fails unless all of it is enqueued.
func (w *world) enqueue(t *testing.T, batch string) {
	t.Helper()
	began := time.Now()
	r := command(t, "headway", w.env(w.redis.URL()), batch, "batch", "-", "--config", w.config, "--json",
		"--limit", "openai")
	var got struct {
		Batch            string
		Enqueued, Faulty int
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 ||
		got.Enqueued != strings.Count(batch, "\n") {
		t.Fatalf("enqueue: exit %d, %v: %s%s", r.code, err, r.out, r.err)
	}
	t.Logf("enqueued %d tasks in %.1f s", got.Enqueued, time.Since(began).Seconds())
}

// worker runs a command of the worker on the world's services, fails unless it succeeds, and returns its output.
func (w *world) worker(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, "headway", w.env(w.redis.URL()), "", append(args, "--config", w.config)...)
	if r.code != 0 {
		t.Fatalf("worker %s: exit %d: %s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// info returns asynq's info of the queue, or the zero value before its first task.
func (w *world) info(t *testing.T) asynq.QueueInfo {
	t.Helper()
	// the error of GetQueueInfo for a missing queue can't be distinguished from other errors
	if queues, err := w.inspector.Queues(); err != nil || !slices.Contains(queues, queue) {
		if err != nil {
			t.Fatalf("list the queues: %v", err)
		}
		return asynq.QueueInfo{}
	}
	info, err := w.inspector.GetQueueInfo(queue)
	if err != nil {
		t.Fatalf("look at the queue: %v", err)
	}
	return *info
}

// awaitCompleted waits until at least n tasks are done.
func (w *world) awaitCompleted(t *testing.T, n int) {
	t.Helper()
	began := time.Now()
	await(t, fmt.Sprintf("%d tasks done", n), func() (bool, string) {
		i := w.info(t)
		return i.Completed >= n, describe(i)
	})
	t.Logf("%d tasks done after %.1f s", n, time.Since(began).Seconds())
}

func describe(i asynq.QueueInfo) string {
	return fmt.Sprintf("pending %d, active %d, scheduled %d, retry %d, archived %d, completed %d",
		i.Pending, i.Active, i.Scheduled, i.Retry, i.Archived, i.Completed)
}

// report returns the provider's counts so far.
func (w *world) report(t *testing.T) provider.Report {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(w.url, "/v1")+"/report",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("ask the provider: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	var r provider.Report
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		t.Fatalf("read the provider's report: %v", err)
	}
	return r
}

// await polls a condition, which also describes its progress.
func await(t *testing.T, what string, condition func() (bool, string)) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, state := condition()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s (%s)", patience, what, state)
		}
	}
}

// pass lets time pass for other processes.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal("the test has ended")
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
