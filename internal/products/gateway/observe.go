package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/api/genai"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

const (
	// tracerName names what makes the spans.
	tracerName = "github.com/headway-go/headway/internal/products/gateway"
	// queueOfCalls stands where a task has its queue, in events and metrics.
	queueOfCalls = "gateway"
)

// emit reports a step of a call, as a worker reports that of a task.
func (g *Gateway) emit(e worker.Event) {
	for _, report := range g.config.Events {
		report(e)
	}
}

// event is a step of the call. Its type is the endpoint.
func (x *exchange) event(kind worker.Kind) worker.Event {
	return worker.Event{
		Kind: kind, Charges: x.order.charges,
		Task: worker.TaskRef{Queue: queueOfCalls, Type: x.call.endpoint, Attempt: x.attempt},
	}
}

// started reports that the call starts now.
func (x *exchange) started(granted time.Time, waited bool) {
	e := x.event(worker.KindStarted)
	if all := x.grant.Outcomes(); len(all) > 0 {
		e.Outcome = all[len(all)-1]
	}
	e.Lateness, e.Waited = time.Since(granted), waited
	x.gateway.emit(e)
}

// refused reports a call that its caller or this gateway can't wait for, as a worker reports a task that has expired.
func (g *Gateway) refused(c *call, err error) {
	if errors.Is(err, errLate) {
		g.emit(worker.Event{
			Kind: worker.KindRejected, Err: fmt.Errorf("%w: %w", tasks.ErrExpired, err),
			Task: worker.TaskRef{Queue: queueOfCalls, Type: c.endpoint},
		})
	}
}

// ended reports how the call ended, and ends its span. Used is nil where the estimate counts. Unused says
// that nothing was sent.
func (x *exchange) ended(used reservations.Tokens, unused bool) {
	if unused {
		used = reservations.Unused(x.order.charges...)
	}
	kind, err := worker.KindSucceeded, x.err
	switch {
	case x.again || x.block > 0:
		kind, err = worker.KindRefused, &reservations.RetryAfterError{After: x.block}
	case x.status >= http.StatusBadRequest:
		kind, err = worker.KindFailed, cmp.Or(err, errors.New(http.StatusText(x.status)))
	case err != nil:
		kind = worker.KindFailed
	case x.header == nil, x.ctx.Err() != nil:
		kind, err = worker.KindAborted, context.Cause(x.ctx)
	}
	e := x.event(kind)
	e.Err, e.Used, e.Elapsed = err, used, time.Since(x.sent)
	x.gateway.emit(e)
	r := genai.Result{Err: err, RequestID: cmp.Or(x.header.Get("X-Request-Id"), x.header.Get("Request-Id"))}
	if x.status >= http.StatusBadRequest {
		r.Status = x.status
	}
	if m := x.meter; m != nil && m.known {
		r.Known, r.Input, r.Output = true, m.used.Input, m.used.Output
	}
	x.endSpan(r)
}

// trace begins the span of a call, in the trace of its caller.
func (g *Gateway) trace(r *http.Request, to route) (traced *http.Request, span trace.Span) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span = g.tracer.Start(ctx, "POST "+to.endpoint, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute(to.endpoint)))
	return r.WithContext(ctx), span
}

// traceStart describes the start of a call, and makes a span of its wait since began.
func (g *Gateway) traceStart(ctx context.Context, o order, began time.Time, waited reservations.Charge) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var limits []string
	for _, c := range o.charges {
		limits = append(limits, c.Limit)
	}
	now := time.Now()
	span.SetAttributes(attribute.String("headway.limit", strings.Join(limits, ", ")),
		attribute.Float64("headway.wait", now.Sub(began).Seconds()))
	if waited.Limit == "" {
		return
	}
	_, wait := g.tracer.Start(ctx, "wait "+waited.Limit, trace.WithTimestamp(began),
		trace.WithAttributes(attribute.String("headway.limit", waited.Limit)))
	wait.End(trace.WithTimestamp(now))
}

// traceFault says that a call was answered by the gateway itself.
func traceFault(ctx context.Context, f fault) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(semconv.HTTPResponseStatusCode(f.status))
	span.SetStatus(codes.Error, f.code)
}

// providerName is the provider in the words of the conventions for GenAI.
func (x *exchange) providerName() attribute.KeyValue {
	switch {
	case x.call.family == familyAnthropic:
		return semconv.GenAIProviderNameAnthropic
	case isAzure(x.order.provider.base.Hostname()):
		return semconv.GenAIProviderNameAzureAIOpenAI
	}
	return semconv.GenAIProviderNameOpenAI
}
