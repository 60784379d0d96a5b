// Package genai makes the spans of calls of models, by OpenTelemetry's conventions for generative AI. Tasks and the
// gateway share it. Prompts, answers and keys are never in a span.
package genai

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/text/spantext"
)

// modelMost bounds the name of a model, in bytes.
const modelMost = 100

// Result is what a call came to. Zero fields are unknown, and not in the span.
type Result struct {
	Err    error
	Status int // of an answer that is an error
	// Known says that the answer named its usage: Input and Output.
	Known         bool
	Input, Output float64
	Model         string // that answered
	RequestID     string // the provider's name for the call
}

// Start begins the span of a call of an endpoint such as /v1/chat/completions. Call end once.
func Start(
	ctx context.Context, tracer trace.Tracer, provider attribute.KeyValue, endpoint, model string,
) (traced context.Context, end func(Result)) {
	operation := operationOf(endpoint)
	ctx, span := tracer.Start(ctx, strings.TrimSpace(operation+" "+bounded(model)),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			semconv.GenAIOperationNameKey.String(operation), provider, semconv.GenAIRequestModel(bounded(model))))
	return ctx, func(r Result) {
		defer span.End()
		if r.Err != nil {
			span.SetStatus(codes.Error, spantext.Of(r.Err.Error()))
		}
		if r.Status > 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(r.Status))
		}
		if r.Known {
			span.SetAttributes(semconv.GenAIUsageInputTokens(int(r.Input)), semconv.GenAIUsageOutputTokens(int(r.Output)))
		}
		if r.Model != "" {
			span.SetAttributes(semconv.GenAIResponseModel(bounded(r.Model)))
		}
		if r.RequestID != "" {
			span.SetAttributes(attribute.String("headway.provider.request_id", spantext.Of(r.RequestID)))
		}
	}
}

// operationOf is an endpoint in the words of the conventions.
func operationOf(endpoint string) string {
	switch {
	case strings.HasSuffix(endpoint, "/embeddings"):
		return "embeddings"
	case strings.HasSuffix(endpoint, "/v1/completions"):
		return "text_completion"
	case strings.HasSuffix(endpoint, "/moderations"):
		return "moderation"
	case strings.Contains(endpoint, "/images/"), strings.Contains(endpoint, "/audio/"):
		return "generate_content"
	}
	return "chat"
}

func bounded(model string) string { return strings.ToValidUTF8(model[:min(len(model), modelMost)], "") }
