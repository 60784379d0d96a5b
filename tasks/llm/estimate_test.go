package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-go/headway/tasks/llm"
)

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
		"tool calls": {`{"messages":[{"tool_calls":[{"type":"function","function":{"name":"1234","arguments":"12345678"}}]}],"max_tokens":1}`, 3 + frame, 1},
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
			got, err := llm.EndpointChat.Estimate(json.RawMessage(c.request))
			if want := (llm.Usage{Input: c.input, Output: c.output}); err != nil || got.Usage != want {
				t.Errorf("%.200s: %+v, %v, want %+v", c.request, got, err, want)
			}
		})
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
		_, err := llm.EndpointChat.Estimate(json.RawMessage(request))
		if wrong, ok := errors.AsType[*llm.RequestError](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v, want a fault of %s", request, err, field)
		}
	}
}

// Whatever a body holds, its estimate is a number that can be charged.
func FuzzEstimate(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(`{"messages":[{"content":[{"type":"image_url"},{"type":"file","file":{}}]}],"n":2147483647,"max_tokens":2147483647}`))
	f.Add([]byte(`{"messages":[[[[{"type":5}]]]]}`))
	f.Fuzz(func(t *testing.T, request []byte) {
		u, err := llm.EndpointChat.Estimate(request)
		if err != nil {
			if _, ok := errors.AsType[*llm.RequestError](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if !(u.Input >= 7) || !(u.Output >= 0) || !(u.Total() < 1e19) {
			t.Fatalf("%s: %+v", request, u)
		}
	})
}
