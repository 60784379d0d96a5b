package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_tokens":10}`

func TestEstimate(t *testing.T) {
	t.Parallel()
	text := func(content string) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":%s}],"max_tokens":1}`, content)
	}
	const frame = 4 + 3 // of one message and of the reply
	for name, c := range map[string]struct {
		request       string
		input, output float64
	}{
		"rounded up":    {text(`"12345"`), 2 + frame, 1},
		"empty":         {text(`""`), frame, 1},
		"null content":  {text(`null`), frame, 1},
		"other scripts": {text(`"日本語で"`), 3 + frame, 1},
		"two messages": {`{"messages":[{"content":"1234"},{"content":"1234"}],"max_tokens":1}`, 2 + frame +
			4, 1},
		"names count": {
			`{"messages":[{"role":"user","name":"1234","content":"1234"}],"max_tokens":1}`,
			2 + frame, 1,
		},
		"tool calls": {
			`{"messages":[{"tool_calls":[{"type":"function","function":{"name":"1234","arguments":"12345678"}}]}],` +
				`"max_tokens":1}`,
			3 + frame, 1,
		},
		"parts": {
			text(`[{"type":"text","text":"1234"},{"type":"text","text":"1234"}]`), 2 + frame,
			1,
		},
		"an image": {text(`[{"type":"image_url","image_url":{"url":"data:` + strings.Repeat("x",
			9999) + `"}}]`), 1500 + frame, 1},
		"a small image": {
			text(`[{"type":"image_url","image_url":{"url":"http://127.0.0.1/","detail":"low"}}]`),
			85 + frame, 1,
		},
		"a file": {text(`[{"type":"file","file":{"file_data":"` + strings.Repeat("x", 300_000) +
			`"}}]`), 3000 + frame, 1},
		"a short sound": {text(`[{"type":"input_audio","input_audio":{"data":"xx"}}]`), 1500 + frame, 1},
		"tools":         {`{"messages":[{}],"tools":["1234"],"max_tokens":1}`, 2 + frame, 1},
		"no bound":      {`{"messages":[{}]}`, frame, 1024},
		"null bounds": {
			`{"messages":[{}],"max_tokens":null,"max_completion_tokens":null,"n":null}`,
			frame, 1024,
		},
		"max_tokens":                {`{"messages":[{}],"max_tokens":300}`, frame, 300},
		"max_completion_tokens":     {`{"messages":[{}],"max_tokens":300,"max_completion_tokens":200}`, frame, 200},
		"several answers":           {`{"messages":[{}],"max_tokens":300,"n":3}`, frame, 900},
		"several of the default":    {`{"messages":[{}],"n":2}`, frame, 2048},
		"a stream that is not one":  {`{"messages":[{}],"stream":false,"max_tokens":1}`, frame, 1},
		"messages of another shape": {`{"messages":["1234",5],"max_tokens":1}`, 1 + frame + 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := openai.Assess(openai.Chat, json.RawMessage(c.request))
			if want := (estimates.Tokens{Input: c.input, Output: c.output}); err != nil || got.Tokens != want {
				t.Errorf("%.200s: %+v, %v, want %+v", c.request, got, err, want)
			}
		})
	}
}

func TestEstimatesOfAllEndpoints(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 40) // 10 tokens
	for name, c := range map[string]struct {
		endpoint string
		body     string
		want     estimates.Tokens
		fault    string // the invalid field
	}{
		"chat": {endpoint: openai.Chat, body: hello, want: estimates.Tokens{Input: 9, Output: 10}},
		"embed a text": {
			endpoint: openai.Embeddings, body: `{"model":"m","input":"` + text + `"}`,
			want: estimates.Tokens{Input: 10},
		},
		"embed texts": {
			endpoint: openai.Embeddings, body: `{"input":["` + text + `","a",""]}`,
			want: estimates.Tokens{Input: 12},
		},
		"embed token ids": {
			endpoint: openai.Embeddings, body: `{"input":[1,2,3]}`,
			want: estimates.Tokens{Input: 3},
		},
		"embed lists of ids": {
			endpoint: openai.Embeddings, body: `{"input":[[1,2,3],[4]]}`,
			want: estimates.Tokens{Input: 4},
		},
		"embed nothing":       {endpoint: openai.Embeddings, body: `{"model":"m"}`, fault: "input"},
		"embed an empty list": {endpoint: openai.Embeddings, body: `{"input":[]}`, fault: "input"},
		"embed a number":      {endpoint: openai.Embeddings, body: `{"input":7}`, fault: "input"},
		"embed an object": {
			endpoint: openai.Embeddings, body: `{"input":[{"text":"a"}]}`,
			fault: "input",
		},
		"embed a mixture": {
			endpoint: openai.Embeddings, body: `{"input":["a",[1,"b"]]}`,
			fault: "input",
		},
		"respond": {endpoint: openai.Responses, body: `{"input":"` + text +
			`","max_output_tokens":7}`, want: estimates.Tokens{Input: 17, Output: 7}},
		"respond, unbounded": {
			endpoint: openai.Responses, body: `{"input":"` + text + `"}`,
			want: estimates.Tokens{Input: 17, Output: openai.OutputDefault},
		},
		"respond to a conversation": {
			endpoint: openai.Responses,
			body: `{"input":[{"role":"user","content":[{"type":"input_text","text":"` + text +
				`"},{"type":"input_image","detail":"low"}]}],"max_output_tokens":1}`, want: estimates.Tokens{
				Input:  102,
				Output: 1,
			},
		},
		"respond to a template": {
			endpoint: openai.Responses,
			body:     `{"prompt":{"id":"p"},"max_output_tokens":1}`, want: estimates.Tokens{Input: 10, Output: 1},
		},
		"respond to an earlier response": {
			endpoint: openai.Responses, body: `{"previous_response_id":"r","max_output_tokens":1}`,
			want: estimates.Tokens{Input: 7, Output: 1},
		},
		"respond to a number": {endpoint: openai.Responses, body: `{"input":7}`, fault: "input"},
		"respond later": {
			endpoint: openai.Responses, body: `{"input":"a","background":true}`,
			fault: "background",
		},
		"respond piecemeal": {
			endpoint: openai.Responses, body: `{"input":"a","stream":true}`,
			fault: "stream",
		},
		"respond at no length": {
			endpoint: openai.Responses, body: `{"input":"a","max_output_tokens":-1}`,
			fault: "max_output_tokens",
		},
		"complete": {
			endpoint: openai.Completions, body: `{"prompt":"` + text + `"}`,
			want: estimates.Tokens{Input: 10, Output: 16},
		},
		"complete several": {endpoint: openai.Completions, body: `{"prompt":["` + text +
			`","a"],"max_tokens":5,"n":2,"best_of":3}`, want: estimates.Tokens{Input: 11, Output: 30}},
		"complete the best of none": {
			endpoint: openai.Completions, body: `{"prompt":"` + text + `","max_tokens":5,"best_of":0}`,
			want: estimates.Tokens{Input: 10, Output: 5},
		},
		"complete nothing": {endpoint: openai.Completions, body: `{}`, fault: "prompt"},
		"moderate":         {endpoint: openai.Moderations, body: `{"input":"` + text + `"}`},
		"moderate nothing": {endpoint: openai.Moderations, body: `{"input":null}`, fault: "input"},
		"no object":        {endpoint: openai.Moderations, body: `[]`, fault: "request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := openai.Assess(c.endpoint, json.RawMessage(c.body))
			fault, ok := errors.AsType[*reservations.FieldError](err)
			if ok != (c.fault != "") || ok && fault.Field != c.fault || !ok && err != nil {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(c.want, got.Tokens); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, err := openai.Assess("/v1/images", json.RawMessage(`{}`))
	if !errors.Is(err, openai.ErrUnknownEndpoint) || !strings.Contains(err.Error(), "/v1/embeddings") {
		t.Errorf("got %v", err)
	}
}

func TestEstimateErrors(t *testing.T) {
	t.Parallel()
	for request, field := range map[string]string{
		``:                                      "request",
		`null`:                                  "request",
		`[]`:                                    "request",
		`{"messages":[{}]`:                      "request",
		`{}`:                                    "messages",
		`{"messages":[]}`:                       "messages",
		`{"messages":"hi"}`:                     "messages",
		`{"messages":[{}],"stream":true}`:       "stream",
		`{"messages":[{}],"max_tokens":-1}`:     "max_tokens",
		`{"messages":[{}],"max_tokens":"many"}`: "max_tokens",
		`{"messages":[{}],"max_tokens":1e999}`:  "max_tokens",
		`{"messages":[{}],"n":0}`:               "n",
		`{"messages":[{}],"max_completion_tokens":1e10}`: "max_completion_tokens",
	} {
		_, err := openai.Assess(openai.Chat, json.RawMessage(request))
		if wrong, ok := errors.AsType[*reservations.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v, want a fault of %s", request, err, field)
		}
	}
}

// The estimate of any body is a number that can be charged.
func FuzzEstimate(f *testing.F) {
	f.Add([]byte(hello))
	f.Add(
		[]byte(
			`{"messages":[{"content":[{"type":"image_url"},{"type":"file","file":{}}]}],"n":2147483647,` +
				`"max_tokens":2147483647}`))
	f.Add([]byte(`{"messages":[[[[{"type":5}]]]]}`))
	f.Fuzz(func(t *testing.T, request []byte) {
		u, err := openai.Assess(openai.Chat, request)
		if err != nil {
			if _, ok := errors.AsType[*reservations.FieldError](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if !(u.Input >= 7) || !(u.Output >= 0) || !(u.Total() < 1e19) {
			t.Fatalf("%s: %+v", request, u)
		}
	})
}
