package llm_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// Whatever a provider answers, its span has short texts of valid UTF-8: an exporter drops the spans of all tasks beside
// one that has not.
func TestTraceOfHostileAnswers(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "\xff"+strings.Repeat("x", 30_000))
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = w.Write([]byte(`{"id":"1","model":"\ud800m` + "\xff" + strings.Repeat("m", 100_000) + `","choices":[],` +
				`"usage":{"prompt_tokens":5,"completion_tokens":7}}`))
			return
		}
		_, _ = w.Write([]byte(`{"error":{"code":"` + "\xfe" + `","message":"` + "\xff" + strings.Repeat("y", 100_000) +
			`"}}`))
	}))
	defer server.Close()
	client, err := llm.NewClient(llm.Config{BaseURL: server.URL + "/v1", APIKey: "sk-key"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, _ := provider.Tracer("test").Start(t.Context(), "process default")
	chat, err := llm.NewCall(llm.EndpointChat, "openai", []byte(`{"messages":[{"role":"user","content":"x"}],`+
		`"model":"m`+"\xff"+strings.Repeat("ü", 100_000)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusNotFound} {
		_, _ = client.Run(ctx, chat, func(reservations.Tokens) {})
	}
	all := spans.Ended()
	if len(all) != 4 {
		t.Fatalf("%d spans", len(all))
	}
	for _, span := range all {
		texts := []string{span.Name(), span.Status().Description}
		for _, a := range span.Attributes() {
			texts = append(texts, a.Value.AsString())
		}
		for _, text := range texts {
			if !utf8.ValidString(text) || len(text) > 2000 {
				t.Errorf("%.20s has a text of %d bytes: %.40q", span.Name(), len(text), text)
			}
		}
	}
}
