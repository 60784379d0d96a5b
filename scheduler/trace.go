package scheduler

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/text/spantext"
)

// tracerName names what makes the spans.
const tracerName = "github.com/headway-go/headway/scheduler"

// tracer is that of the config, or of the global provider.
func (c Config) tracer() trace.Tracer {
	if c.Tracer != nil {
		return c.Tracer.Tracer(tracerName)
	}
	return otel.Tracer(tracerName)
}

// trace begins a span for each parcel, whose context goes with the task. End describes the parcels in their spans, and
// ends these.
func (s *Scheduler) trace(ctx context.Context, parcels []*dispatcher.Parcel) (end func()) {
	spans := make([]trace.Span, len(parcels))
	for i, p := range parcels {
		var traced context.Context
		traced, spans[i] = s.tracer.Start(ctx, "enqueue "+spantext.Of(p.Options.Queue),
			trace.WithSpanKind(trace.SpanKindProducer))
		envelope.WithTrace(traced, p.Task)
	}
	return func() {
		for i, p := range parcels {
			describe(spans[i], p)
			spans[i].End()
		}
	}
}

// describe adds to a span what became of the task.
func describe(span trace.Span, p *dispatcher.Parcel) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		semconv.MessagingSystemKey.String("asynq"), semconv.MessagingOperationName("enqueue"),
		semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(spantext.Of(p.Options.Queue)),
		attribute.String("headway.type", spantext.Of(p.Task.Type())), semconv.MessagingMessageBodySize(len(p.Task.Payload())))
	for _, c := range p.Charges {
		span.SetAttributes(attribute.String("headway.limit", spantext.Of(c.Limit)),
			attribute.String("headway.bucket", spantext.Of(c.Bucket().String())))
	}
	if p.Info != nil {
		span.SetAttributes(semconv.MessagingMessageID(p.Info.ID))
	}
	if p.Err != nil {
		span.SetStatus(codes.Error, spantext.Of(p.Err.Error()))
	}
}
