package llm_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/line/envelope"
	judge "github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

func TestCallCharges(t *testing.T) {
	t.Parallel()
	call, err := llm.NewCall(llm.EndpointModerations, "openai", json.RawMessage(`{"input":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Taken[0].Key = "k"
	tenant := reservations.Charge{Limit: "tenant", Key: "t", Tokens: reservations.Tokens{"requests": 1}}
	call.Taken = slices.Insert(call.Taken, 0, tenant)
	want := []reservations.Charge{tenant, {
		Limit: "openai", Key: "k", Tokens: reservations.Tokens{"requests": 1, "tokens": 0},
	}}
	if diff := cmp.Diff(want, call.Charges()); diff != "" {
		t.Error(diff)
	}
	e, err := envelope.Encode(call)
	if err != nil {
		t.Fatal(err)
	}
	if got, decodeErr := envelope.Decode[llm.Call](e.Task); decodeErr != nil || cmp.Diff(call, got) != "" {
		t.Errorf("%v, %s", decodeErr, cmp.Diff(call, got))
	}
	if _, err = llm.NewCall(llm.EndpointEmbeddings, "openai", json.RawMessage(`{"input":"a"}`),
		"images"); !errors.Is(err, reservations.ErrUnknownMeter) {
		t.Errorf("got %v", err)
	}
}

// Every endpoint is called with the bytes of the request, and the usage is the provider's count.
func TestRunCallAtEveryEndpoint(t *testing.T) {
	t.Parallel()
	server, err := judge.Start(judge.Config{MinLatency: -1, Tokens: judge.Quota{Rate: 1000, Capacity: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	client, err := llm.NewClient(llm.Config{BaseURL: server.URL(), APIKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for endpoint, c := range map[llm.Endpoint]struct{ body, answer string }{
		llm.EndpointChat:        {hello, `"object":"chat.completion"`},
		llm.EndpointResponses:   {`{"model":"m","input":"12345678","max_output_tokens":100}`, `"object":"response"`},
		llm.EndpointEmbeddings:  {`{"model":"m","input":["12345678","1234"]}`, `"object":"embedding"`},
		llm.EndpointCompletions: {`{"model":"m","prompt":"12345678","max_tokens":100}`, `"object":"text_completion"`},
		llm.EndpointModerations: {`{"input":"12345678"}`, `"flagged":false`},
	} {
		call, err := llm.NewCall(endpoint, "openai", json.RawMessage(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var used reservations.Tokens
		answer, err := client.Run(t.Context(), call, func(u reservations.Tokens) { used = u })
		if err != nil || !strings.Contains(string(answer.Body), c.answer) || answer.RequestID == "" {
			t.Errorf("%s: %s, %v", endpoint, answer.Body, err)
		}
		if got := used["tokens"]; got != answer.Usage["tokens"] || got > call.Taken[0].Tokens["tokens"] ||
			(got == 0) != (endpoint == llm.EndpointModerations) {
			t.Errorf("%s: used %v of %v, usage %v", endpoint, used, call.Taken[0].Tokens, answer.Usage)
		}
		if _, named := used["requests"]; named {
			t.Errorf("%s: used %v", endpoint, used)
		}
	}
	if report := server.Report(); report.Accepted != 5 || report.Violations != 0 {
		t.Errorf("%+v", report)
	}
}

func TestRunCallSendsTheBytesAsTheyAre(t *testing.T) {
	t.Parallel()
	const body = `{ "input":"a<b \u00e9", "seed":12345678901234567890, "x_new":{"a":[1.50,null]} }`
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != body || r.URL.Path != "/v1/embeddings" ||
			r.Method != http.MethodPost {
			t.Errorf("%s %s: %s, %v", r.Method, r.URL, got, err)
		}
		if got := r.Header.Get("Content-Type") +
			r.Header.Get("Authorization"); got != "application/jsonBearer "+secret {
			t.Error(got)
		}
		_, _ = io.WriteString(w, `{"data":[{}],"usage":{"prompt_tokens":8,"total_tokens":8}}`)
	})
	answer, err := client.Run(t.Context(), llm.Call{
		Endpoint: llm.EndpointEmbeddings,
		Request:  json.RawMessage(body),
	}, nil)
	want := reservations.Tokens{"input_tokens": 8, "output_tokens": 0, "tokens": 8, "tokens_per_day": 8}
	if diff := cmp.Diff(want, answer.Usage); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestRunCallFailures(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down, `+secret+`"}}`)
	})
	call, err := llm.NewCall(llm.EndpointEmbeddings, "openai", json.RawMessage(`{"input":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Run(t.Context(), call, nil)
	refusal, ok := errors.AsType[*reservations.RetryAfterError](err)
	if !ok || refusal.After != 3*time.Second || !strings.HasPrefix(err.Error(), "embeddings: 429") {
		t.Errorf("got %v", err)
	}
	if e, found := errors.AsType[*llm.Error](err); !found || e.Endpoint != llm.EndpointEmbeddings ||
		string(e.Body) != `{"error":{"message":"slow down, ***"}}` {
		t.Errorf("got %+v", e)
	}
	call.Endpoint = "/v1/images"
	var used reservations.Tokens
	_, err = client.Run(t.Context(), call, func(u reservations.Tokens) { used = u })
	if !errors.Is(err, llm.ErrUnknownEndpoint) || !errors.Is(err, tasks.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(reservations.Tokens{"requests": 0, "tokens": 0}, used); diff != "" {
		t.Error(diff)
	}
}

// TestKindsOfFailures lists retried and permanent failures.
func TestKindsOfFailures(t *testing.T) {
	t.Parallel()
	again := map[int]bool{
		401: true, 402: true, 408: true, 409: true, 420: true, 425: true, 429: true, 430: true, 449: true, 498: true,
		499: true,
	}
	for status := 400; status < 600; status++ {
		for message, too := range map[string]bool{"no": false, "Request too large for gpt-4o": status == 429} {
			answer := fixed{status, []byte(`{"error":{"message":"` + message + `"}}`)}
			client, err := llm.NewClient(llm.Config{APIKey: secret, HTTPClient: &http.Client{Transport: answer}})
			if err != nil {
				t.Fatal(err)
			}
			want := !again[status] && status < 500 || too
			_, err = client.Run(t.Context(), newChat(t, hello), nil)
			if got := errors.Is(err, tasks.ErrPermanent); err == nil || got != want {
				t.Errorf("%d %s: permanent %v, want %v", status, message, got, want)
			}
		}
	}
}
