package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// A call that can't start in time is counted as a task that has expired.
func TestRefusedCallsAreCounted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	play(t, good, func(c *gateway.Config) {
		c.Events = []func(worker.Event){func(e worker.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(e.Kind, " ", e.Task.Queue, " ", e.Task.Type, " ", errors.Is(e.Err, tasks.ErrExpired)))
		}}
	}, func(w *world, g *gate) {
		g.chat(hello)
		if a := g.chat(hello, "Headway-Start-By", "1s"); a.StatusCode != http.StatusTooManyRequests {
			w.t.Errorf("%v: %s", a.Response, a.text)
		}
		w.empty()
		mu.Lock()
		defer mu.Unlock()
		if last := seen[len(seen)-1]; len(seen) != 3 || last != "rejected gateway /v1/chat/completions true" {
			w.t.Error(seen)
		}
	})
}

// Calls have the metrics and the spans of tasks. A span is in the caller's trace, and shows no prompt and no key.
func TestCallsAreObserved(t *testing.T) {
	t.Parallel()
	spans, m := tracetest.NewSpanRecorder(), metrics.New(metrics.Config{})
	defer m.Close()
	var mu sync.Mutex
	var kinds []worker.Kind
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "req_1")
		if r.Header.Get("X-Case") == "broken" {
			http.Error(w, "away", http.StatusInternalServerError)
			return
		}
		if r.Header.Get("X-Request-Id") != "mine" {
			t.Error("the caller's request ID did not come")
		}
		good(w, r)
	}, func(c *gateway.Config) {
		c.Tracing = trace.NewTracerProvider(trace.WithSpanProcessor(spans))
		c.Events = []func(worker.Event){m.Event, func(e worker.Event) {
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, e.Kind)
		}}
	})
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736"
	b.post("/v1/chat/completions", hello, "Traceparent", "00-"+parent+"-00f067aa0ba902b7-01", "X-Request-Id", "mine")
	b.post("/v1/chat/completions", hello, "X-Case", "broken")
	b.settled()
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(kinds); got != "[started succeeded started failed]" {
		t.Error(got)
	}
	all := spans.Ended()
	if len(all) != 4 {
		t.Fatalf("%d spans", len(all))
	}
	call, served, broken := all[0], all[1], all[2]
	if call.Name() != "chat m" || served.Name() != "POST /v1/chat/completions" ||
		call.Parent().SpanID() != served.SpanContext().SpanID() || served.SpanContext().TraceID().String() != parent {
		t.Errorf("%s below %v, %s in %v", call.Name(), call.Parent(), served.Name(), served.SpanContext().TraceID())
	}
	shown := fmt.Sprint(call.Attributes())
	for _, want := range []string{
		`{"gen_ai.usage.input_tokens":7}`, `{"gen_ai.usage.output_tokens":5}`, `{"gen_ai.provider.name":"openai"}`,
		`{"headway.provider.request_id":"req_1"}`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s lacks %s", shown, want)
		}
	}
	if broken.Status().Code != codes.Error {
		t.Errorf("the failed call: %+v", broken.Status())
	}
	if text := fmt.Sprint(shown, served.Attributes(), broken.Attributes()); strings.Contains(text, "12345678") ||
		strings.Contains(text, providerKey) {
		t.Error(text)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			sums[f.GetName()] += one.GetCounter().GetValue()
			if f.GetName() == metric.Running && one.GetGauge().GetValue() != 0 {
				t.Errorf("%v runs", one)
			}
		}
	}
	for name, want := range map[string]float64{metric.Starts: 2, metric.Finished: 2} {
		if sums[name] != want {
			t.Errorf("%s is %v, want %v", name, sums[name], want)
		}
	}
}
