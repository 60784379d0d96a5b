package openai_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/httpcall"
	"github.com/headway-go/headway/internal/openai"
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

// within are errors within a good status.
var within = map[string]judged{
	"OpenRouter, finish_reason error": {
		body: `{"id":"g","choices":[{"message":{"content":"par"},"finish_reason":"error"}],"usage":{"total_tokens":0}}`,
		kind: httpcall.Failed, text: "finish_reason",
	},
	"OpenRouter, error of a choice": {
		body: `{"id":"g","choices":[{"message":{"content":""},"finish_reason":"error","error":{"code":502,` +
			`"message":"upstream gone"}}]}`,
		kind: httpcall.Failed, text: "upstream gone",
	},
	"OpenRouter, choice limited": {
		body: `{"choices":[{"finish_reason":"error","error":{"code":429,"message":"slow",` +
			`"metadata":{"headers":{"X-RateLimit-Reset":"1795262412000"}}}}]}`,
		kind: httpcall.RateLimit, wait: 12 * time.Second, text: "slow",
	},
	"OpenRouter, error beside an id": {
		body: `{"id":"g","error":{"code":429,"message":"Rate limit exceeded: free-models-per-min"}}`,
		kind: httpcall.RateLimit, text: "free-models-per-min",
	},
	"OpenRouter, no endpoint": {
		body: `{"error":{"code":404,"message":"No endpoints found"}}`, kind: httpcall.Permanent, text: "No endpoints",
	},
	"error, and choices that did not end": {
		body: `{"id":"g","error":{"message":"cut"},"choices":[{"message":{"content":"par"},"finish_reason":null}]}`,
		kind: httpcall.Failed, text: "cut",
	},
	"Mistral, error of several": {
		body: `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{},"finish_reason":"error"}]}`,
		kind: httpcall.Failed, text: "finish_reason",
	},
	"Zhipu, network_error": {
		body: `{"choices":[{"message":{},"finish_reason":"network_error"}]}`, kind: httpcall.Failed,
	},
	"DeepSeek, resources": {
		body: `{"choices":[{"message":{"content":"a"},"finish_reason":"insufficient_system_resource"}]}`,
		kind: httpcall.Overload, text: "insufficient_system_resource",
	},
	"vLLM, abort":         {body: `{"choices":[{"message":{},"finish_reason":"abort"}]}`, kind: httpcall.Failed},
	"Cohere, in capitals": {body: `{"choices":[{"message":{},"finish_reason":"ERROR"}]}`, kind: httpcall.Failed},
	"MiniMax, requests": {
		body: `{"choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`,
		kind: httpcall.RateLimit, text: "rate limit",
	},
	"MiniMax, tokens": {
		body: `{"base_resp":{"status_code":1039,"status_msg":"token limit"}}`, kind: httpcall.RateLimit,
	},
	"MiniMax, balance": {
		body: `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, kind: httpcall.Quota,
	},
	"MiniMax, timeout": {
		body: `{"base_resp":{"status_code":1001,"status_msg":"request timeout"}}`, kind: httpcall.Failed,
	},
	"MiniMax, parameters": {
		body: `{"id":"","choices":null,"base_resp":{"status_code":2013,"status_msg":"invalid params"}}`,
		kind: httpcall.Permanent, text: "invalid params",
	},
	"MiniMax, sensitive": {
		body: `{` + stop + `,"base_resp":{"status_code":1027,"status_msg":"output sensitive"}}`, kind: httpcall.Permanent,
	},
	"ERNIE, requests a second": {
		body: `{"error_code":18,"error_msg":"Open api qps request limit reached"}`, kind: httpcall.RateLimit, text: "qps",
	},
	"ERNIE, as text": {body: `{"error_code":"18","error_msg":"limit"}`, kind: httpcall.RateLimit},
	"ERNIE, requests": {
		body: `{"code":336501,"msg":"Rate limit reached for RPM"}`, kind: httpcall.RateLimit, text: "RPM",
	},
	"ERNIE, busy": {body: `{"error_code":336100,"error_msg":"try again later"}`, kind: httpcall.Overload},
	"ERNIE, inside": {
		body: `{"error_code":336000,"error_msg":"Internal error"}`, kind: httpcall.Failed, text: "Internal",
	},
	"ERNIE, prompt": {body: `{"error_code":336003,"error_msg":"messages empty"}`, kind: httpcall.Permanent},
	"DashScope": {
		body: `{"code":"Throttling.RateQuota","message":"slow down","request_id":"r"}`, kind: httpcall.RateLimit,
	},
	"DashScope, overdue": {body: `{"code":"Arrearage","message":"Access denied"}`, kind: httpcall.Quota},
	"Zhipu, coding plan": {
		body: `{"code":500,"msg":"404 NOT_FOUND","success":false}`, kind: httpcall.Failed, text: "NOT_FOUND",
	},
	"iFlow": {
		body: `{"status":"449","msg":"You exceeded your rate","body":null}`, kind: httpcall.Failed,
		text: "your rate",
	},
	"Tencent": {
		body: `{"Response":{"Error":{"Code":"LimitExceeded","Message":"too often"},"RequestId":"r"}}`,
		kind: httpcall.RateLimit, text: "too often",
	},
	"Cloudflare": {
		body: `{"success":false,"errors":[{"code":7009,"message":"Upstream service unavailable"}],"result":null}`,
		kind: httpcall.Failed, text: "Upstream service",
	},
	"vLLM, object error": {
		body: `{"object":"error","message":"bad","type":"BadRequestError","code":400}`, kind: httpcall.Permanent,
		text: "bad",
	},
	"FastAPI": {body: `{"detail":"Not Found"}`, kind: httpcall.Failed, text: "Not Found"},
	"FastAPI, a list": {
		body: `{"detail":[{"loc":["body"],"msg":"field required"}]}`, kind: httpcall.Failed, text: "field required",
	},
	"Ollama": {body: `{"error":"model runner has stopped"}`, kind: httpcall.Failed, text: "runner"},
	"Anthropic, a gateway": {
		body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, kind: httpcall.Overload,
		text: "Overloaded",
	},
	"AI Studio, quoted": {
		body: `{"error":{"message":"{\n \"error\": {\n \"code\": 429,\n \"message\": \"exhausted\",` +
			`\n \"status\": \"RESOURCE_EXHAUSTED\"}}","code":429}}`,
		kind: httpcall.RateLimit, text: "exhausted",
	},
	"LiteLLM, 200": {
		body: `{"error":{"message":"litellm.RateLimitError: x","type":"throttling_error","code":"429"}}`,
		kind: httpcall.RateLimit,
	},
	"Responses, failed": {
		endpoint: openai.Responses,
		body:     `{"id":"r","status":"failed","error":{"code":"server_error","message":"sorry"},"output":[]}`,
		kind:     httpcall.Failed, text: "sorry",
	},
	"Responses, limited": {
		endpoint: openai.Responses,
		body: `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 1.5s."},` +
			`"output":[]}`,
		kind: httpcall.RateLimit, wait: 1500 * time.Millisecond, text: "rate_limit_exceeded",
	},
	"Responses, prompt": {
		endpoint: openai.Responses,
		body:     `{"status":"failed","error":{"code":"invalid_prompt","message":"no"},"output":[]}`,
		kind:     httpcall.Permanent, text: "invalid_prompt",
	},
	"Responses, silent": {
		endpoint: openai.Responses, body: `{"status":"failed","error":null,"output":[{"type":"reasoning"}]}`,
		kind: httpcall.Failed, text: "status failed",
	},
	"Responses, cancelled": {
		endpoint: openai.Responses, body: `{"status":"cancelled","output":[{"type":"reasoning"}]}`, kind: httpcall.Failed,
	},
}

// unusable are good statuses with something else than an answer.
var unusable = map[string]judged{
	"accepted":           {status: 202, body: `{}`, text: "has no choices"},
	"no content":         {status: 204, text: "the answer is empty"},
	"nothing":            {body: `{}`, text: "has no choices"},
	"null choices":       {body: `{"id":"c","choices":null}`, text: "choices is empty"},
	"Gemini, blocked":    {body: `{"choices":[],"usage":{"total_tokens":7}}`, text: "choices is empty"},
	"choices of nothing": {body: `{"choices":[{}]}`, text: "choices is empty"},
	"no data":            {endpoint: openai.Embeddings, body: `{"data":[],"usage":{}}`, text: "data is empty"},
	"not ended": {
		endpoint: openai.Responses, body: `{"status":"queued","output":[]}`, text: "has not ended: queued",
	},
	"vLLM, -Infinity":     {body: `{"choices":[{"logprobs":{"a":-Infinity}}]}`, text: "valid JSON"},
	"NaN":                 {body: `{"choices":[{"score":NaN}]}`, text: "NaN"},
	"events":              {body: "data: {\"id\":1}\n\ndata: [DONE]\n\n", text: "a stream of events"},
	"events with a name":  {body: "event: message\ndata: {}\n\n", text: "a stream of events"},
	"brotli":              {header: map[string]string{"Content-Encoding": "br"}, body: "\x0b\x02\x80", text: `"br"`},
	"gzip without a name": {body: "\x1f\x8b\x08\x00", text: "a gzip file"},
	"UTF-16":              {body: "{\x00\"\x00a\x00", text: "UTF-16LE text"},
	"cut off":             {body: `{"choices":[{"mess`, text: "ends in the middle"},
	"two objects":         {body: "{\"a\":1}\n{\"a\":2}", text: "valid JSON"},
	"a page": {
		header: map[string]string{"Content-Type": "text/html"}, body: "<html>log in</html>", text: "text/html",
	},
	"a list": {body: `[1]`, text: "not a JSON object"},
	"null":   {body: `null`, text: "not a JSON object"},
	"a word": {body: `ok`, text: "not a JSON object"},
	"blank":  {body: " \r\n", text: "the answer is empty"},
}

// refusals are statuses of errors.
var refusals = map[string]judged{
	"OpenAI": {
		status: 429, body: `{"error":{"message":"Rate limit reached. Please try again in 1m2.5s. Visit",` +
			`"type":"requests","code":"rate_limit_exceeded"}}`,
		kind: httpcall.RateLimit, wait: 62500 * time.Millisecond,
	},
	"OpenAI, headers first": {
		status: 429, header: map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500"},
		body: `{"error":{"message":"Please try again in 9s."}}`, kind: httpcall.RateLimit, wait: 1500 * time.Millisecond,
	},
	"OpenAI, quota": {
		status: 429, body: `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota",` +
			`"code":"insufficient_quota"}}`,
		kind: httpcall.Quota, text: "insufficient_quota",
	},
	"OpenAI, above the limit": {
		status: 429, body: `{"error":{"message":"Request too large for gpt-4o","code":"rate_limit_exceeded"}}`,
		kind: httpcall.Permanent,
	},
	"LiteLLM, above the limit": {
		status: 429, body: `{"error":{"message":"litellm.RateLimitError: OpenAIException - Request too large for ` +
			`gpt-4o","code":"429"}}`,
		kind: httpcall.Permanent,
	},
	"Groq, above the limit": {
		status: 413, body: `{"error":{"message":"Request too large for model m on tokens per minute","type":"tokens",` +
			`"code":"rate_limit_exceeded"}}`,
		kind: httpcall.Permanent,
	},
	"no body": {status: 429, kind: httpcall.RateLimit},
	"Azure": {
		status: 429, header: map[string]string{"X-Ms-Retry-After-Ms": "350"}, kind: httpcall.RateLimit,
		wait: 350 * time.Millisecond,
	},
	"Azure, in words": {
		status: 429, body: `{"error":{"code":"429","message":"have exceeded token rate limit. Please retry after 4 ` +
			`seconds."}}`,
		kind: httpcall.RateLimit, wait: 4 * time.Second,
	},
	"GitHub Models": {
		status: 429, body: `{"error":{"code":"RateLimitReached","message":"Please wait 32 seconds before retrying."}}`,
		kind: httpcall.RateLimit, wait: 32 * time.Second,
	},
	"GitHub, after": {
		status: 403, header: map[string]string{"Retry-After": "60"}, kind: httpcall.RateLimit, wait: time.Minute,
	},
	"GitHub, reset": {
		status: 403, header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1795262430"},
		kind: httpcall.RateLimit, wait: 30 * time.Second,
	},
	"GitHub, something left": {
		status: 403, header: map[string]string{"X-Ratelimit-Remaining": "7", "X-Ratelimit-Reset": "1795262430"},
		kind: httpcall.Permanent,
	},
	"forbidden": {status: 403, body: `{"error":{"message":"no"}}`, kind: httpcall.Permanent},
	"forbidden, no number": {
		status: 403, header: map[string]string{"X-Ratelimit-Reset": "1795262430"}, kind: httpcall.Permanent,
	},
	"Google, 403": {
		status: 403, body: `{"error":{"code":403,"message":"slow","errors":[{"reason":"userRateLimitExceeded"}]}}`,
		kind: httpcall.RateLimit,
	},
	"Volcengine, overdue": {
		status: 403, body: `{"error":{"code":"AccountOverdueError","message":"pay"}}`, kind: httpcall.Quota,
	},
	"Anthropic, no credit": {
		status: 400, body: `{"type":"error","error":{"type":"invalid_request_error",` +
			`"message":"Your credit balance is too low"}}`,
		kind: httpcall.Quota,
	},
	"DeepSeek, balance": {
		status: 402, body: `{"error":{"message":"Insufficient Balance","type":"unknown_error",` +
			`"code":"invalid_request_error"}}`,
		kind: httpcall.Quota,
	},
	"DashScope, overdue": {
		status: 400, body: `{"code":"Arrearage","message":"Access denied"}`, kind: httpcall.Quota,
	},
	"Zhipu, overdue": {status: 429, body: `{"error":{"code":"1113","message":"x"}}`, kind: httpcall.Quota},
	"Bedrock": {
		status: 400, body: `{"__type":"ThrottlingException","code":"ThrottlingException","message":"x"}`,
		kind: httpcall.RateLimit,
	},
	"Groq, flex": {
		status: 498, body: `{"error":{"code":"capacity_exceeded","message":"x"}}`, kind: httpcall.Overload,
	},
	"Groq, flex with a time": {
		status: 498, header: map[string]string{"Retry-After": "3"}, kind: httpcall.Overload, wait: 3 * time.Second,
	},
	"Anthropic": {
		status: 529, header: map[string]string{"Retry-After": "11"},
		body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		kind: httpcall.Overload, wait: 11 * time.Second, text: "overloaded_error",
	},
	"Anthropic, no time": {status: 529, kind: httpcall.Overload},
	"a gateway":          {status: 502, body: "<html>", kind: httpcall.Failed},
	"a gateway with a time": {
		status: 502, header: map[string]string{"Retry-After": "5"}, kind: httpcall.Overload, wait: 5 * time.Second,
	},
	"unavailable": {
		status: 503, header: map[string]string{"Retry-After": "5"}, kind: httpcall.Overload, wait: 5 * time.Second,
	},
	"Cloudflare": {
		status: 524, header: map[string]string{"Retry-After": "5"}, kind: httpcall.Overload, wait: 5 * time.Second,
	},
	"inside, with a time": {
		status: 500, header: map[string]string{"Retry-After": "5"}, kind: httpcall.Failed, wait: 5 * time.Second,
	},
	"no model": {status: 404, body: `{"error":{"code":"model_not_found"}}`, kind: httpcall.Permanent},
	"a model that loads": {
		status: 404, header: map[string]string{"Retry-After": "20"}, kind: httpcall.Overload, wait: 20 * time.Second,
	},
	"a model that loads, 424": {
		status: 424, header: map[string]string{"Retry-After": "20"}, kind: httpcall.Overload, wait: 20 * time.Second,
	},
	"424": {status: 424, kind: httpcall.Permanent},
	"Hugging Face": {
		status: 503, body: `{"error":"Model m is currently loading","estimated_time":20.5}`,
		kind: httpcall.Overload, wait: 20500 * time.Millisecond, text: "loading",
	},
	"Gemini": {
		status: 429,
		body: `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan.",` +
			`"status":"RESOURCE_EXHAUSTED",` +
			`"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"PerDay"}]},` +
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"4.2s"}]}}]`,
		kind: httpcall.RateLimit, wait: 4200 * time.Millisecond, text: "current quota",
	},
	"Gemini, no list": {
		status: 429, body: `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":{"seconds":4,` +
			`"nanos":200000000}}]}}`,
		kind: httpcall.RateLimit, wait: 4200 * time.Millisecond,
	},
	"Gemini, no time": {
		status: 429, body: `[{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).",` +
			`"status":"RESOURCE_EXHAUSTED"}}]`,
		kind: httpcall.RateLimit, text: "exhausted",
	},
	"Vertex, 503": {
		status: 503, body: `{"error":{"code":503,"status":"UNAVAILABLE","message":"busy"}}`, kind: httpcall.Overload,
	},
	"OpenRouter": {
		status: 429,
		body: `{"error":{"code":429,"message":"Rate limit exceeded","metadata":{"headers":{"X-RateLimit-Limit":"20",` +
			`"X-RateLimit-Remaining":"0",` +
			`"X-RateLimit-Reset":"1795262442000"}}}}`,
		kind: httpcall.RateLimit, wait: 42 * time.Second,
	},
	"OpenRouter, credits": {status: 402, body: `{"error":{"code":402,"message":"more credits"}}`, kind: httpcall.Quota},
	"Mistral": {
		status: 429,
		body:   `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}`,
		kind:   httpcall.RateLimit, text: "1300",
	},
	"Mistral, by size": {
		status: 429, header: map[string]string{"Ratelimitbysize-Remaining": "0", "Ratelimitbysize-Reset": "32"},
		kind: httpcall.RateLimit, wait: 32 * time.Second,
	},
	"Cohere": {status: 429, body: `{"message":"Trial key limit"}`, kind: httpcall.RateLimit, text: "Trial"},
	"Ollama": {
		status: 429, body: `{"error":"you have reached your session usage limit"}`, kind: httpcall.RateLimit,
		text: "session",
	},
	"SiliconFlow": {
		status: 503, body: `{"code":50505,"message":"Model service overloaded."}`, kind: httpcall.Overload,
		text: "50505",
	},
	"Hugging Face TGI": {
		status: 429, body: `{"error":"Model is overloaded","error_type":"overloaded"}`, kind: httpcall.RateLimit,
	},
	"Moonshot": {
		status: 429,
		body:   `{"error":{"type":"engine_overloaded_error","message":"busy, please try again after 1 seconds"}}`,
		kind:   httpcall.RateLimit, wait: time.Second,
	},
	"Moonshot, quota": {
		status: 429, body: `{"error":{"type":"exceeded_current_quota_error","message":"x"}}`, kind: httpcall.Quota,
	},
	"IETF": {
		status: 429, header: map[string]string{"RateLimit": `"burst";r=9;t=2, "daily";r=0;t=30`},
		kind: httpcall.RateLimit, wait: 30 * time.Second,
	},
	"a refused key": {status: 401, body: `{"error":{"code":"invalid_api_key"}}`, kind: httpcall.Key},
	"unprocessable": {
		status: 422, header: map[string]string{"Retry-After": "5"}, kind: httpcall.Permanent, wait: 5 * time.Second,
	},
	"gzip, no name": {status: 503, body: "\x1f\x8b\x08\x00", kind: httpcall.Overload, text: "the error is a gzip file"},
	"packed": {
		status: 503, header: map[string]string{"Content-Encoding": "br"}, body: "\x0b\x02", kind: httpcall.Overload,
		text: `packed as "br"`,
	},
	"redirected": {
		status: 302, header: map[string]string{"Location": "/login"}, kind: httpcall.Failed, text: "/login",
	},
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
