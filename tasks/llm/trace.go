package llm

import (
	"context"
	"encoding/json"
	"errors"

	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/api/genai"
	"github.com/headway-go/headway/internal/api/openai"
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
	ctx, done := genai.Start(ctx, parent.TracerProvider().Tracer(tracerName), semconv.GenAIProviderNameOpenAI,
		string(to), openai.ModelOf(request))
	return ctx, func(a Answer, err error) {
		r := genai.Result{Err: err}
		if e, ok := errors.AsType[*Error](err); ok {
			r.Status = e.StatusCode
		}
		if err == nil {
			r.Known, r.Input, r.Output = true, a.Usage[MeterInput], a.Usage[MeterOutput]
			r.Model, r.RequestID = openai.ModelOf(a.Body), a.RequestID
		}
		done(r)
	}
}
