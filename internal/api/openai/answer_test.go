package openai_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
)

// noon is the moment of all answers without a Date.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// judged is an answer of a provider, and what it means. A new oddity of a provider is one row.
type judged struct {
	endpoint string // empty is openai.Chat
	status   int    // zero is 200
	header   map[string]string
	body     string

	kind httpcall.Kind
	wait time.Duration
	text string // is part of the message or is the code
}

const stop = `"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]`

// good are the answers that have to stay good.
var good = map[string]judged{
	"Azure, filtered": {
		body: `{"choices":[{"content_filter_results":{"hate":{"filtered":true,"severity":"high"}},` +
			`"finish_reason":"content_filter","message":{"role":"assistant"}}],"prompt_filter_results":[{"prompt_index":0}]}`,
	},
	"Azure, a filter that failed": {
		body: `{"choices":[{"content_filter_results":{"error":{"code":"content_filter_error","message":"late"}},` +
			`"finish_reason":"stop","message":{"content":"a"}}]}`,
	},
	"DeepSeek, kept alive":       {body: "\n\n\n{" + stop + "}"},
	"Mistral, model_length":      {body: `{"choices":[{"message":{"content":"a"},"finish_reason":"model_length"}]}`},
	"Together, warnings":         {body: `{` + stop + `,"warnings":[{"message":"old model"}],"errors":[]}`},
	"Cohere, embeddings by type": {endpoint: openai.Embeddings, body: `{"embeddings":{"float":[[0.5]]}}`},
	"OpenRouter, provider's own reason": {
		body: `{"choices":[{"message":{"content":"a"},"finish_reason":"stop","native_finish_reason":"ERROR_FREE"}]}`,
	},
	"OpenAI": {body: `{"id":"c1","object":"chat.completion",` + stop + `,"error":null}`},
	"empty content": {
		body: `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`,
	},
	"null content": {body: `{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`},
	"OpenAI, tool calls": {
		body: `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"t"}]},"finish_reason":"tool_calls"}]}`,
	},
	"OpenAI, refusal":        {body: `{"choices":[{"message":{"refusal":"no"},"finish_reason":"stop"}]}`},
	"OpenAI, length":         {body: `{"choices":[{"message":{"content":""},"finish_reason":"length"}]}`},
	"OpenAI, content filter": {body: `{"choices":[{"message":{},"finish_reason":"content_filter"}]}`},
	"Zhipu, sensitive":       {body: `{"choices":[{"message":{"content":""},"finish_reason":"sensitive"}]}`},
	"xAI, end_turn":          {body: `{"choices":[{"message":{"content":"a"},"finish_reason":"end_turn"}]}`},
	"Together, eos":          {body: `{"choices":[{"message":{"content":"a"},"finish_reason":"eos"}]}`},
	"Gemini, malformed call": {
		body: `{"choices":[{"message":{},"finish_reason":"function_call_filter: MALFORMED_FUNCTION_CALL"}]}`,
	},
	"llama.cpp, no reason": {body: `{"choices":[{"message":{"content":"a"}}]}`},
	"null reason":          {body: `{"choices":[{"message":{"content":"a"},"finish_reason":null}]}`},
	"two choices": {
		body: `{"choices":[{"text":"a","finish_reason":"stop"},{"text":"b","finish_reason":"length"}]}`,
	},
	"MiniMax": {
		body: `{` + stop + `,"input_sensitive":false,"base_resp":{"status_code":0,"status_msg":"success"}}`,
	},
	"one-api, empty error":  {body: `{` + stop + `,"error":{"message":"","type":"","param":"","code":0}}`},
	"an error that is none": {body: `{` + stop + `,"error":false}`},
	"error_code of success": {body: `{` + stop + `,"error_code":0,"error_msg":""}`},
	"genkit, a remark": {
		body: `{"choices":[{"message":{"content":"a"},"finish_reason":"stop","error":{"message":"late"}}]}`,
	},
	"created":                {status: 201, body: `{` + stop + `}`},
	"accepted and done":      {status: 202, body: `{` + stop + `}`},
	"a mark of UTF-8 is cut": {body: `{` + stop + `}`},
	"the word error inside": {
		body: `{"choices":[{"message":{"content":"{\"error\":{\"code\":429}}"},"finish_reason":"stop"}]}`,
	},
	"Responses": {
		endpoint: openai.Responses, body: `{"status":"completed","error":null,"output":[{"type":"message"}]}`,
	},
	"Responses, incomplete": {
		endpoint: openai.Responses,
		body:     `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`,
	},
	"vLLM, no status":    {endpoint: openai.Responses, body: `{"output":[{"type":"message"}]}`},
	"Embeddings":         {endpoint: openai.Embeddings, body: `{"data":[{"embedding":[0.5]}]}`},
	"Embeddings, base64": {endpoint: openai.Embeddings, body: `{"data":[{"embedding":"AAAA"}]}`},
	"MiniMax, vectors":   {endpoint: openai.Embeddings, body: `{"vectors":[[0.5]],"base_resp":{"status_code":0}}`},
	"Cohere, embeddings": {endpoint: openai.Embeddings, body: `{"embeddings":[[0.5]]}`},
	"Moderations":        {endpoint: openai.Moderations, body: `{"results":[{"flagged":true}]}`},
	"Completions":        {endpoint: openai.Completions, body: `{"choices":[{"text":"","finish_reason":"length"}]}`},
	"Anthropic, its own": {body: `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}`},
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for group, rows := range map[string]map[string]judged{
		"good": good, "within": within, "unusable": unusable, "refusals": refusals,
	} {
		for name, c := range rows {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				switch group {
				case "good":
					c.kind = httpcall.Good
				case "unusable":
					c.kind = httpcall.Unusable
				}
				h := http.Header{}
				for name, value := range c.header {
					h.Set(name, value)
				}
				if c.status == 0 {
					c.status = http.StatusOK
				}
				if c.endpoint == "" {
					c.endpoint = openai.Chat
				}
				v := openai.Judge(openai.Reply{Endpoint: c.endpoint, Status: c.status, Header: h, Body: []byte(c.body)}, noon)
				if v.Kind != c.kind || v.Wait != c.wait || !strings.Contains(v.Message+"\n"+v.Code+"\n"+v.Type, c.text) {
					t.Errorf("got %+v, want %s, wait %v, %q", v, c.kind, c.wait, c.text)
				}
				if (v.Kind == httpcall.Unusable) != (v.Form != "") {
					t.Errorf("%s with the form %q", v.Kind, v.Form)
				}
			})
		}
	}
}
