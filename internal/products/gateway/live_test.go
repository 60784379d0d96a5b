package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/products/gateway"
)

// answer writes an answer of a provider.
func answer(w http.ResponseWriter, kind, body string) {
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, body)
}

const (
	isJSON   = "application/json"
	isStream = "text/event-stream"
)

// What a call used is settled, whichever endpoint it went to.
func TestUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, body, kind, answer string
		used                     float64 // of 1000 tokens
		out                      string  // what the caller gets; the answer itself if empty
	}{
		"chat": {
			path: "/v1/chat/completions", body: hello, kind: isJSON,
			answer: `{"usage":{"prompt_tokens":7,"completion_tokens":5},"choices":[{"message":{"content":"hi"}}]}`, used: 12,
		},
		"a usage within": {
			path: "/v1/chat/completions", body: hello, kind: isJSON,
			answer: `{"metadata":{"usage":{"prompt_tokens":0,"completion_tokens":1}},"choices":[{"message":{"content":` +
				`"\"usage\":{\"total_tokens\":1}"}}] , "usage" : {"total_tokens":33, "details":[{"a":1}]} }`, used: 33,
		},
		"no usage": {
			path: "/v1/chat/completions", body: hello, kind: isJSON, answer: `{"choices":[]}`, used: 100 + helloInput,
		},
		"responses": {
			path: "/v1/responses", body: `{"model":"m","input":"hello","max_output_tokens":50}`, kind: isJSON,
			answer: `{"output":[],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`, used: 7,
		},
		"messages": {
			path: "/v1/messages", body: hello, kind: isJSON,
			answer: `{"type":"message","usage":{"input_tokens":3,"cache_creation_input_tokens":10,` +
				`"cache_read_input_tokens":1000,"output_tokens":4}}`, used: 17,
		},
		"embeddings": {
			path: "/v1/embeddings", body: `{"model":"m","input":"hello"}`, kind: isJSON,
			answer: `{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}`, used: 3,
		},
		"moderations": {
			path: "/v1/moderations", body: `{"input":"hello"}`, kind: isJSON, answer: `{"results":[]}`,
		},
		"images": {
			path: "/v1/images/generations", body: `{"model":"dall-e-3","prompt":"12345678"}`, kind: isJSON,
			answer: `{"data":[]}`, used: 2,
		},
		"speech": {
			path: "/v1/audio/speech", body: `{"model":"tts","input":"12345678"}`, kind: "audio/mpeg", answer: "\xff\xfb",
			used: 2,
		},
		"azure": {
			path: "/openai/deployments/m/chat/completions?api-version=2024-10-21", body: hello, kind: isJSON,
			answer: `{"usage":{"total_tokens":9}}`, used: 9,
		},
		"chat, streamed": {
			path: "/v1/chat/completions", body: streamed, kind: isStream,
			answer: `data: {"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}` + "\n\n" +
				`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}` + "\n\ndata: [DONE]\n\n", used: 12,
			out: `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\ndata: [DONE]\n\n",
		},
		"chat, usage asked for": {
			path: "/v1/chat/completions", kind: isStream,
			body:   `{"stream_options":{"include_usage":true},` + streamed[1:],
			answer: `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}` + "\n\ndata: [DONE]\n\n", used: 12,
		},
		"chat, no usage in the stream": {
			path: "/v1/chat/completions", body: streamed, kind: isStream,
			answer: strings.Repeat(`data: {"choices":[{"delta":{"content":"12345678"}}]}`+"\n\n", 10), used: helloInput + 20,
		},
		"responses, streamed": {
			path: "/v1/responses", body: `{"model":"m","input":"hello","max_output_tokens":50,"stream":true}`, kind: isStream,
			answer: "event: response.completed\n" + `data: {"type":"response.completed","response":{"usage":` +
				`{"input_tokens":3,"output_tokens":4,"total_tokens":7}}}` + "\n\n", used: 7,
		},
		"messages, streamed": {
			path: "/v1/messages", body: streamed, kind: isStream,
			answer: `data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n" +
				`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}` + "\n\n" +
				`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}` + "\n\n", used: 40,
		},
		"messages, cut off": {
			path: "/v1/messages", body: streamed, kind: isStream,
			answer: `data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n" +
				`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"12345678"}}` + "\n\n", used: 27,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+providerKey && r.Header.Get("X-Api-Key") != providerKey {
					t.Errorf("the provider got %v", r.Header)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				answer(w, c.kind, c.answer)
			}, nil)
			status, text := b.post(c.path, c.body, "Authorization", "Bearer of-the-caller")
			want := c.out
			if want == "" {
				want = c.answer
			}
			if status != http.StatusOK || text != want {
				t.Errorf("status %d, %q, want %q", status, text, want)
			}
			if tokens, requests := b.left(); 1000-tokens != c.used || requests != 9 {
				t.Errorf("used %v tokens and %v requests, want %v and 1", 1000-tokens, 10-requests, c.used)
			}
		})
	}
}

// A body goes to the provider as it came, but for the usage of a stream.
func TestBodies(t *testing.T) {
	t.Parallel()
	const chat = `"model" : "m","messages":[{"role":"user","content":"a\u003cb"}],"n":1, "seed":12345678901234567890 `
	for sent, want := range map[string]string{
		`{` + chat + `}`:                `{` + chat + `}`,
		` {` + chat + `,"stream":true}`: ` {"stream_options":{"include_usage":true},` + chat + `,"stream":true}`,
		`{` + chat + `,"stream":true,"stream_options":null}`: `{` + chat +
			`,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"stream_options":{},` + chat + `,"stream":true}`: `{"stream_options":{"include_usage":true},` + chat +
			`,"stream":true}`,
		`{"stream_options": {"include_usage": false, "x":1},` + chat + `,"stream":true}`: `{"stream_options": ` +
			`{"include_usage": true, "x":1},` + chat + `,"stream":true}`,
		`{"stream_options": { "x":1},` + chat + `,"stream":true}`: `{"stream_options": {"include_usage":true, "x":1},` +
			chat + `,"stream":true}`,
		`{"stream_options":{"include_usage":true},` + chat + `,"stream":true}`: `{"stream_options":` +
			`{"include_usage":true},` + chat + `,"stream":true}`,
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			b := setup(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- string(body)
				answer(w, isJSON, `{}`)
			}, func(c *gateway.Config) { c.Large = true })
			if status, text := b.post("/v1/chat/completions", sent); status != http.StatusOK {
				t.Fatalf("%d: %s", status, text)
			}
			if body := <-got; body != want {
				t.Errorf("the provider got\n%s, want\n%s", body, want)
			}
		})
	}
}

// A caller that goes away while its answer streams ends the call of the provider, and pays for what came.
func TestCallerGoesAwayWhileStreaming(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	b := setup(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", isStream)
		for range 5 {
			_, _ = fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"12345678"}}]}`+"\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/chat/completions", strings.NewReader(streamed))
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadFull(res.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = res.Body.Close()
	<-ended
	b.Close() // waits for the handler
	if tokens, requests := b.left(); tokens != 1000-helloInput-10 || requests != 9 {
		t.Errorf("%v tokens and %v requests are left", tokens, requests)
	}
}
