package llm

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/spantext"
)

// tracerName names what makes the spans.
const tracerName = "github.com/headway-go/headway/tasks/llm"

// traceCall begins the span of a call, in the trace of ctx. Where that is not recorded, there is none. Prompts and
// answers are never in it.
func traceCall(
	ctx context.Context, to Endpoint, request json.RawMessage,
) (traced context.Context, end func(Answer, error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func(Answer, error) {}
	}
	operation, model := to.operation(), modelOf(request)
	ctx, span := parent.TracerProvider().Tracer(tracerName).Start(ctx, strings.TrimSpace(operation+" "+model),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			semconv.GenAIOperationNameKey.String(operation), semconv.GenAIProviderNameOpenAI,
			semconv.GenAIRequestModel(model)))
	return ctx, func(a Answer, err error) {
		defer span.End()
		if err != nil {
			span.SetStatus(codes.Error, spantext.Of(err.Error()))
			if e, ok := errors.AsType[*Error](err); ok && e.StatusCode > 0 {
				span.SetAttributes(semconv.HTTPResponseStatusCode(e.StatusCode))
			}
			return
		}
		span.SetAttributes(semconv.GenAIUsageInputTokens(int(a.Usage[MeterInput])),
			semconv.GenAIUsageOutputTokens(int(a.Usage[MeterOutput])), semconv.GenAIResponseModel(modelOf(a.Body)))
		if a.RequestID != "" {
			span.SetAttributes(attribute.String("headway.provider.request_id", spantext.Of(a.RequestID)))
		}
	}
}

// operation is the endpoint in the words of the conventions for GenAI.
func (e Endpoint) operation() string {
	switch e {
	case EndpointEmbeddings:
		return "embeddings"
	case EndpointCompletions:
		return "text_completion"
	case EndpointModerations:
		return "moderation"
	case EndpointChat, EndpointResponses:
	}
	return "chat"
}

// modelOf is the model that a request or an answer names, at most 100 bytes of it.
func modelOf(body json.RawMessage) string {
	var named struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &named) // without a model then
	return strings.ToValidUTF8(named.Model[:min(len(named.Model), 100)], "")
}
