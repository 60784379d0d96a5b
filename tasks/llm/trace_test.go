package llm_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// A call has a span below that of the task, with model and tokens, and no word of prompt and answer.
func TestTraceOfACall(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK {
			http.Error(w, `{"error":{"message":"slow down"}}`, status)
			return
		}
		fmt.Fprint(w, `{"id":"1","model":"gpt-4o-2024","choices":[{"message":{"content":"ANSWER"}}],`+
			`"usage":{"prompt_tokens":5,"completion_tokens":7}}`)
	}))
	defer server.Close()
	client, err := llm.NewClient(llm.Config{BaseURL: server.URL + "/v1", APIKey: "sk-key"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, parent := provider.Tracer("test").Start(t.Context(), "process default")
	chat, err := llm.NewCall(llm.EndpointChat, "openai", []byte(`{"model":"gpt-4o","messages":[{"role":"user",`+
		`"content":"PROMPT"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.Run(ctx, chat, func(reservations.Tokens) {}); err != nil {
		t.Fatal(err)
	}
	status = http.StatusTooManyRequests
	if _, err = client.Run(ctx, chat, func(reservations.Tokens) {}); err == nil {
		t.Fatal("a refused call went well")
	}
	all := spans.Ended()
	if len(all) != 2 {
		t.Fatalf("%d spans", len(all))
	}
	good, refused := all[0], all[1]
	text := fmt.Sprint(good.Attributes())
	if good.Name() != "chat gpt-4o" || good.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("%s below %v", good.Name(), good.Parent())
	}
	attributes := map[string]string{}
	for _, a := range good.Attributes() {
		attributes[string(a.Key)] = a.Value.String()
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o-2024",
		"gen_ai.usage.input_tokens": "5", "gen_ai.usage.output_tokens": "7",
	} {
		if attributes[key] != want {
			t.Errorf("%s is %q, want %q", key, attributes[key], want)
		}
	}
	if refused.Status().Code != codes.Error || !strings.Contains(fmt.Sprint(refused.Attributes()), "429") {
		t.Errorf("the refused call: %+v, %v", refused.Status(), refused.Attributes())
	}
	for _, secret := range []string{"PROMPT", "ANSWER", "sk-key"} {
		if strings.Contains(text+fmt.Sprint(refused.Attributes(), refused.Status()), secret) {
			t.Errorf("the span shows %s", secret)
		}
	}
	if _, err := client.Run(t.Context(), chat, func(reservations.Tokens) {}); err == nil || len(spans.Ended()) != 2 {
		t.Error("a call without a trace has a span")
	}
}
