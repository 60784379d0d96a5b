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

	"github.com/headway-go/headway/internal/envelope"
	judge "github.com/headway-go/headway/internal/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

func TestEndpointEstimates(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 40) // 10 tokens
	for name, c := range map[string]struct {
		endpoint llm.Endpoint
		body     string
		want     llm.Usage
		fault    string // the invalid field
	}{
		"chat": {endpoint: llm.EndpointChat, body: hello, want: llm.Usage{Input: 9, Output: 10}},
		"embed a text": {
			endpoint: llm.EndpointEmbeddings, body: `{"model":"m","input":"` + text + `"}`,
			want: llm.Usage{Input: 10},
		},
		"embed texts": {
			endpoint: llm.EndpointEmbeddings, body: `{"input":["` + text + `","a",""]}`,
			want: llm.Usage{Input: 12},
		},
		"embed token ids": {
			endpoint: llm.EndpointEmbeddings, body: `{"input":[1,2,3]}`,
			want: llm.Usage{Input: 3},
		},
		"embed lists of ids": {
			endpoint: llm.EndpointEmbeddings, body: `{"input":[[1,2,3],[4]]}`,
			want: llm.Usage{Input: 4},
		},
		"embed nothing":       {endpoint: llm.EndpointEmbeddings, body: `{"model":"m"}`, fault: "input"},
		"embed an empty list": {endpoint: llm.EndpointEmbeddings, body: `{"input":[]}`, fault: "input"},
		"embed a number":      {endpoint: llm.EndpointEmbeddings, body: `{"input":7}`, fault: "input"},
		"embed an object": {
			endpoint: llm.EndpointEmbeddings, body: `{"input":[{"text":"a"}]}`,
			fault: "input",
		},
		"embed a mixture": {
			endpoint: llm.EndpointEmbeddings, body: `{"input":["a",[1,"b"]]}`,
			fault: "input",
		},
		"respond": {endpoint: llm.EndpointResponses, body: `{"input":"` + text +
			`","max_output_tokens":7}`, want: llm.Usage{Input: 17, Output: 7}},
		"respond, unbounded": {
			endpoint: llm.EndpointResponses, body: `{"input":"` + text + `"}`,
			want: llm.Usage{Input: 17, Output: llm.OutputDefault},
		},
		"respond to a conversation": {
			endpoint: llm.EndpointResponses,
			body: `{"input":[{"role":"user","content":[{"type":"input_text","text":"` + text +
				`"},{"type":"input_image","detail":"low"}]}],"max_output_tokens":1}`, want: llm.Usage{
				Input:  102,
				Output: 1,
			},
		},
		"respond to a template": {
			endpoint: llm.EndpointResponses,
			body:     `{"prompt":{"id":"p"},"max_output_tokens":1}`, want: llm.Usage{Input: 10, Output: 1},
		},
		"respond to nothing":  {endpoint: llm.EndpointResponses, body: `{"model":"m"}`, fault: "input"},
		"respond to a number": {endpoint: llm.EndpointResponses, body: `{"input":7}`, fault: "input"},
		"respond later": {
			endpoint: llm.EndpointResponses, body: `{"input":"a","background":true}`,
			fault: "background",
		},
		"respond piecemeal": {
			endpoint: llm.EndpointResponses, body: `{"input":"a","stream":true}`,
			fault: "stream",
		},
		"respond at no length": {
			endpoint: llm.EndpointResponses, body: `{"input":"a","max_output_tokens":-1}`,
			fault: "max_output_tokens",
		},
		"complete": {
			endpoint: llm.EndpointCompletions, body: `{"prompt":"` + text + `"}`,
			want: llm.Usage{Input: 10, Output: 16},
		},
		"complete several": {endpoint: llm.EndpointCompletions, body: `{"prompt":["` + text +
			`","a"],"max_tokens":5,"n":2,"best_of":3}`, want: llm.Usage{Input: 11, Output: 30}},
		"complete nothing": {endpoint: llm.EndpointCompletions, body: `{}`, fault: "prompt"},
		"moderate":         {endpoint: llm.EndpointModerations, body: `{"input":"` + text + `"}`},
		"moderate nothing": {endpoint: llm.EndpointModerations, body: `{"input":null}`, fault: "input"},
		"no object":        {endpoint: llm.EndpointModerations, body: `[]`, fault: "request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.endpoint.Estimate(json.RawMessage(c.body))
			fault, ok := errors.AsType[*llm.RequestError](err)
			if c.fault != "" && (!ok || fault.Field != c.fault || fault.Endpoint != c.endpoint) || c.fault == "" &&
				err != nil {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(c.want, got.Usage); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, err := llm.Endpoint("/v1/images").Estimate(json.RawMessage(`{}`))
	if !errors.Is(err, llm.ErrUnknownEndpoint) || !strings.Contains(err.Error(), "/v1/embeddings") {
		t.Errorf("got %v", err)
	}
}

func TestCallCharges(t *testing.T) {
	t.Parallel()
	call, err := llm.NewCall(llm.EndpointModerations, "openai", json.RawMessage(`{"input":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Taken[0].Key = "k"
	tenant := reservations.Charge{Limit: "tenant", Key: "t", Tokens: reservations.Tokens{"requests": 1}}
	call.Taken = slices.Insert(call.Taken, 0, tenant)
	want := []reservations.Charge{tenant, {Limit: "openai", Key: "k", Tokens: reservations.Tokens{"requests": 1}}}
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
	if call, err = llm.NewCall(llm.EndpointEmbeddings, "", json.RawMessage(`{"input":"a"}`)); err != nil ||
		call.Charges() != nil {
		t.Errorf("charges %v, %v, want none", call.Charges(), err)
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
		if got := used["tokens"]; got != answer.Usage.Total() || got > call.Taken[0].Tokens["tokens"] ||
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
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":8,"total_tokens":8}}`)
	})
	answer, err := client.Run(t.Context(), llm.Call{
		Endpoint: llm.EndpointEmbeddings,
		Request:  json.RawMessage(body),
	}, nil)
	if want := (llm.Usage{Input: 8}); err != nil || answer.Usage != want {
		t.Errorf("%+v, %v", answer, err)
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
	again := map[int]bool{401: true, 408: true, 409: true, 425: true, 429: true}
	for status := 400; status < 600; status++ {
		want := again[status] || status >= 500
		if got := !(&llm.Error{StatusCode: status}).Permanent(); got != want {
			t.Errorf("%d: tried again %v, want %v", status, got, want)
		}
	}
	if (&llm.Error{}).Permanent() {
		t.Error("a broken connection is permanent")
	}
	if !(&llm.Error{StatusCode: 429, Message: "Request too large for gpt-4o"}).Permanent() {
		t.Error("a request above the whole limit is tried again")
	}
}
