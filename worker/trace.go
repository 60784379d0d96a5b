package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/text/spantext"
	"github.com/headway-go/headway/reservations"
)

const (
	// tracerName names what makes the spans.
	tracerName = "github.com/headway-go/headway/worker"
	// linksKept is how long the span of a delivery is remembered for the next one.
	linksKept = 24 * time.Hour
	// linkPatience bounds the calls of Redis for it.
	linkPatience = 200 * time.Millisecond
)

// tracing makes one span for each delivery, in the trace of the span that enqueued the task. Each links to the delivery
// before it, whose span is in Redis: asynq's headers can't change. Only recorded spans cost calls of Redis.
// The zero value makes none.
type tracing struct {
	tracer trace.Tracer
	redis  redis.UniversalClient
}

// traced is the span of a delivery.
type traced struct {
	span   trace.Span      // nil before begin
	parent context.Context //nolint:containedctx // the context of the task's headers; the span of its wait uses it
	again  bool            // the task will be delivered again
	linked bool            // Redis has a span of the task
}

func newTracing(provider trace.TracerProvider, client redis.UniversalClient) tracing {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return tracing{tracer: provider.Tracer(tracerName), redis: client}
}

// begin begins the span of a delivery. The handler's context has it. Whether a task is sampled is decided where it is
// enqueued: one that is not has no span, and its context says so to the spans of the handler.
func (t tracing) begin(ctx context.Context, d *delivery) context.Context {
	if t.tracer == nil {
		return ctx
	}
	parent := envelope.TraceOf(ctx, d.task)
	if sent := trace.SpanContextFromContext(parent); sent.IsValid() && !sent.IsSampled() {
		return parent
	}
	spanned, span := t.tracer.Start(parent, "process "+d.queue, trace.WithSpanKind(trace.SpanKindConsumer))
	d.traced = traced{span: span, parent: parent}
	if !span.IsRecording() {
		return spanned
	}
	span.SetAttributes(
		semconv.MessagingSystemKey.String("asynq"), semconv.MessagingOperationName("process"),
		semconv.MessagingOperationTypeProcess, semconv.MessagingDestinationName(d.queue),
		semconv.MessagingMessageID(d.id), semconv.MessagingMessageBodySize(len(d.task.Payload())),
		attribute.String("headway.type", d.task.Type()), attribute.Int("headway.attempt", d.retried+1))
	if link, ok := t.before(ctx, d); ok {
		d.traced.linked = true
		span.AddLink(link)
	}
	return spanned
}

// before is the link to the delivery of the task before this one.
func (t tracing) before(ctx context.Context, d *delivery) (trace.Link, bool) {
	ctx, cancel := context.WithTimeout(ctx, linkPatience)
	defer cancel()
	parent, err := t.redis.Get(ctx, linkKey(d)).Result()
	if err != nil {
		return trace.Link{}, false
	}
	carrier := propagation.MapCarrier{"traceparent": parent}
	none := trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	last := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(none, carrier))
	return trace.Link{SpanContext: last}, last.IsValid()
}

// started describes the start of the task, and makes a span of its wait.
func (t tracing) started(d *delivery) {
	if !d.traced.recording() || len(d.charges) == 0 {
		return
	}
	d.traced.span.SetAttributes(d.startAttributes()...)
	if d.wait > 0 {
		now := time.Now()
		_, waited := t.tracer.Start(d.traced.parent, "wait "+d.charge().Limit, trace.WithTimestamp(now.Add(-d.wait)),
			trace.WithAttributes(attribute.String("headway.limit", d.charge().Limit)))
		waited.End(trace.WithTimestamp(now))
	}
}

// startAttributes are the attributes of a task that started under limits. The log line of its end has the same.
func (d *delivery) startAttributes() []attribute.KeyValue {
	limits, buckets := namesOf(d.taken())
	all := []attribute.KeyValue{
		attribute.String("headway.limit", limits), attribute.String("headway.bucket", buckets),
		attribute.Float64("headway.wait", d.wait.Seconds()), attribute.Float64("headway.hold", d.hold.Seconds()),
		attribute.Float64("headway.lateness", d.late.Seconds()),
	}
	for meter, n := range d.estimated() {
		all = append(all, attribute.Float64("headway.tokens.estimated."+meter, n))
	}
	return all
}

// estimated are the tokens that the task was charged, of each meter in the last limit that has it.
func (d *delivery) estimated() reservations.Tokens {
	all := reservations.Tokens{}
	for _, c := range d.taken() {
		maps.Copy(all, c.Tokens)
	}
	return all
}

// traceDeferral describes why the task waits.
func (d *delivery) traceDeferral(e Event) {
	d.traced.again = true
	if !d.traced.recording() || d.runs.Load() { // a task that ran has its result
		return
	}
	d.traced.span.SetAttributes(attribute.String("headway.result", "deferred"),
		attribute.String("headway.limit", e.Charge.Limit), attribute.String("headway.bucket", e.Charge.Bucket().String()),
		attribute.Float64("headway.until", float64(e.Until.UnixMilli())/1000))
}

// traceEnd describes how the task ended.
func (d *delivery) traceEnd(result Kind, used reservations.Tokens, err error) {
	d.traced.again = result == KindFailed || result == KindRefused || result == KindAborted
	if !d.traced.recording() {
		return
	}
	d.traced.span.SetAttributes(attribute.String("headway.result", string(result)))
	for meter, n := range used {
		d.traced.span.SetAttributes(attribute.Float64("headway.tokens.used."+spantext.Of(meter), n))
	}
	if err != nil && dispatcher.IsFailure(err) {
		d.traced.span.SetStatus(codes.Error, spantext.Of(err.Error()))
	}
}

// end ends the span, and stores it for the next delivery.
func (t tracing) end(ctx context.Context, d *delivery) {
	if d.traced.span == nil {
		return
	}
	defer d.traced.span.End()
	if !d.traced.recording() || !d.traced.again && !d.traced.linked {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkPatience)
	defer cancel()
	if !d.traced.again {
		_ = t.redis.Del(ctx, linkKey(d)).Err() // it ends by itself
		return
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(ctx, d.traced.span), carrier)
	_ = t.redis.Set(ctx, linkKey(d), carrier["traceparent"], linksKept).Err() // a trace without a link is one as well
}

func (t *traced) recording() bool { return t.span != nil && t.span.IsRecording() }

func linkKey(d *delivery) string { return "headway:{trace}:" + d.handle().String() }

// endAttrs are the fields of the log line of a task that ended: the attributes of its span.
func (d *delivery) endAttrs(f Event) []slog.Attr {
	attrs := []slog.Attr{slog.String("result", string(f.Kind)), slog.Duration("elapsed", f.Elapsed)}
	if len(d.charges) > 0 {
		attrs = append(attrs, slog.Duration("wait", d.wait), slog.Duration("hold", d.hold),
			slog.Duration("lateness", d.late))
		attrs = append(attrs, tokensAttr("estimated", d.estimated()), tokensAttr("used", f.Used))
	}
	if d.traced.span != nil && d.traced.span.SpanContext().IsValid() {
		at := d.traced.span.SpanContext()
		attrs = append(attrs, slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	if f.Err != nil {
		attrs = append(attrs, slog.Any("error", f.Err))
	}
	return attrs
}

// tokensAttr is a group with one field for each meter; it is left out where there is none.
func tokensAttr(name string, tokens reservations.Tokens) slog.Attr {
	var meters []slog.Attr
	for _, meter := range slices.Sorted(maps.Keys(tokens)) {
		meters = append(meters, slog.Float64(meter, tokens[meter]))
	}
	return slog.GroupAttrs(name, meters...)
}
