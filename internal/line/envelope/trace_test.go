package envelope_test

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/line/envelope"
)

func TestTraceGoesWithTheTask(t *testing.T) {
	t.Parallel()
	sent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	task := asynq.NewTaskWithHeaders("t", nil, map[string]string{})
	envelope.WithTrace(trace.ContextWithSpanContext(t.Context(), sent), task)
	if got := trace.SpanContextFromContext(envelope.TraceOf(t.Context(), task)); !got.Equal(sent.WithRemote(true)) {
		t.Errorf("%+v", got)
	}
}

func TestNoTrace(t *testing.T) {
	t.Parallel()
	plain := asynq.NewTaskWithHeaders("t", nil, map[string]string{})
	envelope.WithTrace(context.WithoutCancel(t.Context()), plain)
	if len(plain.Headers()) != 0 {
		t.Errorf("headers %v", plain.Headers())
	}
	for _, parent := range []string{
		"", "x", "00-0-0-01", "00-00000000000000000000000000000000-0000000000000000-01", "ff-" + string(make([]byte, 60)),
	} {
		task := asynq.NewTaskWithHeaders("t", nil, map[string]string{"traceparent": parent})
		if got := trace.SpanContextFromContext(envelope.TraceOf(t.Context(), task)); got.IsValid() {
			t.Errorf("%q is a trace: %+v", parent, got)
		}
	}
	foreign := asynq.NewTask("t", nil)
	if got := trace.SpanContextFromContext(envelope.TraceOf(t.Context(), foreign)); got.IsValid() {
		t.Errorf("a task without headers has a trace: %+v", got)
	}
}
