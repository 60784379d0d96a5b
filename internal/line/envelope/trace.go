package envelope

import (
	"context"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/propagation"
)

// WithTrace writes the trace context of ctx into the headers of a task that has headers: traceparent and tracestate of
// W3C. Nothing is written where ctx has no trace.
func WithTrace(ctx context.Context, t *asynq.Task) {
	if headers := t.Headers(); headers != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
	}
}

// TraceOf returns ctx with the trace context of the task's headers, as far as there is a valid one.
func TraceOf(ctx context.Context, t *asynq.Task) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(t.Headers()))
}
