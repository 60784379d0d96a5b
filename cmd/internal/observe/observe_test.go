package observe

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/worker"
)

func TestMetricsListenOnLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"9464": "127.0.0.1:9464", ":9464": "127.0.0.1:9464", "0.0.0.0:9464": "0.0.0.0:9464", "[::1]:1": "[::1]:1",
		"": "", "host": "", "1:2:3": "", "127.0.0.1:99999": "", "127.0.0.1:http": "",
	} {
		got, err := localAddress(address)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", address, got, err, want)
		}
	}
}

// served is an Observer that serves, and its address.
func served(t *testing.T, ctx context.Context) (o *Observer, server *miniredis.Miniredis, url string) {
	t.Helper()
	server = miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	limits := []reservations.Limit{{Name: "api", Meters: []reservations.Meter{reservations.PerSecond("requests", 1)}}}
	o, err := New(ctx, Flags{Address: "127.0.0.1:0", Keys: []string{"api=3"}}, limits, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	buckets := &connect.Buckets{Store: memstore.New()}
	o.Measure(client, buckets)
	limiter, err := reservations.New(buckets, limits, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := o.Serve(ctx, client, limiter, func(context.Context) (documents.Store, error) {
		return redisstore.Documents(client), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return o, server, "http://" + o.listener.Addr().String()
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestServesMetrics(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o, _, url := served(t, ctx)
	seen := 0
	for _, hook := range o.Events(func(worker.Event) { seen++ }) {
		hook(worker.Event{Kind: worker.KindSucceeded, Task: worker.TaskRef{Queue: "default", Type: "chat"}})
	}
	if seen != 1 {
		t.Error("the other events are not called")
	}
	status, body := fetch(t, url+"/metrics")
	for _, want := range []string{
		`headway_tasks_finished_total{queue="default",result="succeeded",type="chat"} 1`,
		`headway_meter_capacity_tokens{key="",limit="api",meter="requests"} 1`,
		"headway_store_call_duration_seconds_bucket", "headway_redis_call_duration_seconds_bucket", "go_goroutines",
	} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d: %s is missing", status, want)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/debug/pprof/": 404} {
		if status, body = fetch(t, url+path); status != want {
			t.Errorf("%s: %d: %s", path, status, body)
		}
	}
	cancel()
	status, body = fetch(t, url+"/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "stops") {
		t.Errorf("a process that stops is ready: %d: %s", status, body)
	}
}

func TestIsNotReadyWithoutRedis(t *testing.T) {
	t.Parallel()
	_, server, url := served(t, t.Context())
	server.Close()
	status, body := fetch(t, url+"/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "redis") {
		t.Errorf("%d: %s", status, body)
	}
	if status, _ = fetch(t, url+"/healthz"); status != http.StatusOK {
		t.Errorf("the process lives: %d", status)
	}
}

// A name that another site points to loopback does not read the metrics there.
func TestMetricsCheckTheHost(t *testing.T) {
	t.Parallel()
	for address, anyHost := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true} {
		on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		defer func() { _ = on.Close() }()
		h := (&Observer{listener: on}).guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for host, here := range map[string]bool{
			"127.0.0.1:9464": true, "localhost": true, "[::1]:9464": true, "127.0.0.2": true,
			"evil.example:9464": false, "localhost.evil.example": false, "10.0.0.1": false, "": false,
		} {
			for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Host = host
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if (w.Code == http.StatusOK) != (here || anyHost) {
					t.Errorf("%s of %q at %s: status %d", path, host, address, w.Code)
				}
			}
		}
	}
}
