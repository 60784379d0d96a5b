package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// traced has the bundle's scheduler make spans, and returns them with the config of a worker.
func (b *bundle) traced(sampler sdktrace.Sampler) (*tracetest.SpanRecorder, scheduler.Config) {
	b.t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	config := scheduler.Config{Tracer: provider}
	var err error
	if b.scheduler, err = scheduler.New(b.client, nil, config); err != nil {
		b.t.Fatal(err)
	}
	return spans, config
}

// spansOf waits until n spans have ended, and returns them in the order of their ends.
func spansOf(t *testing.T, r *tracetest.SpanRecorder, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	eventually(t, "spans have ended", func() bool { return len(r.Ended()) >= n })
	return r.Ended()
}

// spansNamed are the spans with this name.
func spansNamed(all []sdktrace.ReadOnlySpan, name string) (found []sdktrace.ReadOnlySpan) {
	for _, s := range all {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

// attr is an attribute of a span.
func attr(s sdktrace.ReadOnlySpan, key string) attribute.Value {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// A task that waits has one trace, from its enqueue through the delivery that sent it to wait to its call. The second
// delivery links to the first one.
func TestTraceOfATaskThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, filling(time.Hour))
		spans, config := b.traced(sdktrace.AlwaysSample())
		w := b.worker(worker.Config{Scheduler: config})
		inside := make(chan trace.SpanContext, 2)
		worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
			inside <- trace.SpanContextFromContext(ctx)
			job.Use(reservations.Tokens{"tokens": 7})
			return nil
		})
		b.enqueue(call{N: 1, Cost: 10}, tasks.Options{ID: "first"})
		b.start(w)
		receive(t, inside)
		b.enqueue(call{N: 2, Cost: 10}, tasks.Options{ID: "second"})
		receive(t, b.deferrals)
		b.refill(filling(time.Second))
		handler := receive(t, inside)
		b.gone("second")

		var own []sdktrace.ReadOnlySpan // of the second task
		for _, s := range spansOf(t, spans, 6) {
			if s.SpanContext().TraceID() == handler.TraceID() {
				own = append(own, s)
			}
		}
		enqueued, waited := spansNamed(own, "enqueue default"), spansNamed(own, "wait api")
		deliveries := spansNamed(own, "process default")
		if len(own) != 4 || len(enqueued) != 1 || len(waited) != 1 || len(deliveries) != 2 {
			t.Fatalf("%d spans: %d enqueue, %d wait, %d process", len(own), len(enqueued), len(waited), len(deliveries))
		}
		deferred, ran := deliveries[0], deliveries[1]
		if !handler.Equal(ran.SpanContext()) {
			t.Error("the handler's context has another span")
		}
		for _, s := range []sdktrace.ReadOnlySpan{waited[0], deferred, ran} {
			if s.Parent().SpanID() != enqueued[0].SpanContext().SpanID() {
				t.Errorf("%s is not below the enqueue", s.Name())
			}
		}
		if links := ran.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != deferred.SpanContext().SpanID() {
			t.Errorf("links of the second delivery: %+v", links)
		}
		if got := attr(deferred, "headway.result").AsString(); got != "deferred" {
			t.Errorf("the first delivery is %q", got)
		}
		if attr(ran, "headway.result").AsString() != "succeeded" || attr(ran, "headway.limit").AsString() != "api" ||
			attr(ran, "headway.tokens.estimated.tokens").AsFloat64() != 10 ||
			attr(ran, "headway.tokens.used.tokens").AsFloat64() != 7 || attr(ran, "headway.wait").AsFloat64() <= 0 ||
			attr(ran, "messaging.message.id").AsString() != "second" ||
			attr(ran, "messaging.destination.name").AsString() != "default" {
			t.Errorf("attributes of the call: %v", ran.Attributes())
		}
		if took := waited[0].EndTime().Sub(waited[0].StartTime()); took <= 0 || took > time.Second {
			t.Errorf("waited for %v", took)
		}
		eventually(t, "the link is dropped", func() bool {
			return b.client.Exists(context.WithoutCancel(t.Context()), "headway:{trace}:default/second").Val() == 0
		})
	})
}

// A retry is in the same trace and links to the attempt that failed.
func TestTraceOfARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		spans, config := b.traced(sdktrace.AlwaysSample())
		w := b.worker(worker.Config{Scheduler: config})
		worker.Handle(w, func(_ context.Context, job *worker.Job[free]) error {
			if job.Attempt == 1 {
				return errors.New("once")
			}
			return nil
		})
		b.start(w)
		info := b.enqueue(free{})
		b.hurry(info.ID)
		b.gone(info.ID)
		deliveries := spansNamed(spansOf(t, spans, 3), "process default")
		if len(deliveries) != 2 {
			t.Fatalf("%d deliveries", len(deliveries))
		}
		first, second := deliveries[0], deliveries[1]
		if first.Status().Description != "once" || second.Status().Description != "" {
			t.Errorf("status %+v, then %+v", first.Status(), second.Status())
		}
		if l := second.Links(); len(l) != 1 || l[0].SpanContext.SpanID() != first.SpanContext().SpanID() ||
			first.SpanContext().TraceID() != second.SpanContext().TraceID() {
			t.Errorf("links of the retry: %+v", l)
		}
	})
}

// A trace that is not sampled costs no calls of Redis, and its decision goes with the task.
func TestUnsampledTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		spans, config := b.traced(sdktrace.ParentBased(sdktrace.NeverSample()))
		w := b.worker(worker.Config{Scheduler: config})
		seen := make(chan trace.SpanContext, 1)
		worker.Handle(w, func(ctx context.Context, job *worker.Job[free]) error {
			if job.Attempt > 1 {
				seen <- trace.SpanContextFromContext(ctx)
				return nil
			}
			return errors.New("once")
		})
		b.start(w)
		info := b.enqueue(free{})
		b.hurry(info.ID)
		at := receive(t, seen)
		if !at.IsValid() || at.IsSampled() || len(spans.Ended()) != 0 {
			t.Errorf("sampled: %v, %d spans", at.IsSampled(), len(spans.Ended()))
		}
		if n := b.client.Exists(t.Context(), "headway:{trace}:default/"+info.ID).Val(); n != 0 {
			t.Error("the span of an unsampled trace is stored")
		}
	})
}

// Without tracing, a task's headers are what they were.
func TestNoTraceInHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		info := b.enqueue(free{})
		if got, err := b.inspector.GetTaskInfo("default", info.ID); err != nil || got.Headers["traceparent"] != "" ||
			got.Headers[envelope.HeaderVersion] == "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A task that ended has one line at info, with the fields of its span.
func TestOneLineForEachTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		_, config := b.traced(sdktrace.AlwaysSample())
		lines := &lockedBuffer{}
		w := b.worker(worker.Config{Scheduler: config, Logger: slog.New(slog.NewJSONHandler(lines, nil))})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"tokens": 7})
			return map[bool]error{true: tasks.Permanent(errors.New("no good"))}[job.Args.N == 2]
		})
		b.start(w)
		b.enqueue(call{N: 1, Cost: 10}, tasks.Options{ID: "good"})
		b.gone("good")
		b.enqueue(call{N: 2, Cost: 10}, tasks.Options{ID: "bad"})
		b.info("bad", asynq.TaskStateArchived)
		for id, want := range map[string]string{"good": "INFO", "bad": "ERROR"} {
			found := lines.of(t, id)
			if len(found) != 1 {
				t.Fatalf("%d lines of %s: %v", len(found), id, found)
			}
			l := found[0]
			for _, field := range []string{
				"type", "queue", "attempt", "limit", "bucket", "result", "wait", "hold", "lateness", "elapsed", "estimated",
				"used", "trace_id", "span_id",
			} {
				if _, ok := l[field]; !ok {
					t.Errorf("%s has no %s: %v", id, field, l)
				}
			}
			if l["level"] != want {
				t.Errorf("%s is at %v", id, l["level"])
			}
		}
	})
}

// of returns the lines about a task.
func (b *lockedBuffer) of(t *testing.T, id string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(b.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if line["task_id"] == id {
			lines = append(lines, line)
		}
	}
	return slices.Clip(lines)
}

// A text of a handler that is long or no UTF-8 is cut and mended in the span: an exporter drops all spans beside one
// that it can't write.
func TestTraceOfHostileErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, filling(time.Second))
		spans, config := b.traced(sdktrace.AlwaysSample())
		w := b.worker(worker.Config{Scheduler: config})
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"tok\xff": 7})
			return errors.New("\xff" + strings.Repeat("x", 1<<20))
		})
		b.enqueue(call{N: 1, Cost: 1}, tasks.Options{ID: "first", MaxRetry: tasks.NoRetry})
		b.start(w)
		ended := spansNamed(spansOf(t, spans, 2), "process default")
		if len(ended) != 1 {
			t.Fatalf("%d spans", len(ended))
		}
		if text := ended[0].Status().Description; !utf8.ValidString(text) || len(text) > 2000 || len(text) < 100 {
			t.Errorf("the error has %d bytes: %.40q", len(text), text)
		}
		for _, a := range ended[0].Attributes() {
			if !utf8.ValidString(string(a.Key)) || !utf8.ValidString(a.Value.String()) {
				t.Errorf("attribute %q", a.Key)
			}
		}
	})
}
