package openai_test

import (
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
)

// within are errors within a good status.
var within = map[string]judged{
	"a gateway, upstream_error": {
		body: `{"choices":[{"message":{"content":"par"},"finish_reason":"upstream_error"}]}`,
		kind: httpcall.Failed, text: "upstream_error",
	},
	"a gateway, limited by its reason": {
		body: `{"choices":[{"message":{},"finish_reason":"rate_limit_error"}]}`, kind: httpcall.RateLimit,
	},
	"SGLang, an object": {
		body: `{"choices":[{"message":{},"finish_reason":{"type":"abort","message":"too long a wait"}}]}`,
		kind: httpcall.Failed, text: "too long a wait",
	},
	"a flag, and words beside it": {
		body: `{"error":true,"message":"come back later","code":"RATE_LIMIT_EXCEEDED"}`,
		kind: httpcall.RateLimit, text: "come back later",
	},
	"a code, and words beside it": {
		body: `{"error":"rate_limit_exceeded","message":"too many of them"}`,
		kind: httpcall.RateLimit, text: "too many of them",
	},
	"Bedrock, behind a proxy": {
		body: `{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0","error":` +
			`{"__type":"com.amazonaws.bedrock#ThrottlingException","message":"Too many tokens"}}`,
		kind: httpcall.RateLimit, text: "Too many tokens",
	},
	"Vertex, a list": {
		body: `{"error":[{"error":{"code":503,"status":"UNAVAILABLE","message":"busy"}}]}`, kind: httpcall.Overload,
		text: "busy",
	},
	"Azure, a filter": {
		body: `{"error":{"code":"content_filter","message":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
		kind: httpcall.Permanent, text: "filtered",
	},
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
		body: `{"status":"449","msg":"You exceeded your rate","body":null}`, kind: httpcall.RateLimit,
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
	"OpenRouter, events after a comment": {
		body: ": PROCESSING\n\ndata: {\"id\":1}\n\n", text: "a stream of events",
	},
	"events that begin with a time": {body: "retry: 300\ndata: {}\n\n", text: "a stream of events"},
	"zstd without a name":           {body: "\x28\xb5\x2f\xfd\x00", text: "a zstd file"},
	"Infinity":                      {body: `{"choices":[{"score":Infinity}]}`, text: "valid JSON"},
	"Azure, the prompt only": {
		body: `{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, text: "choices is empty",
	},
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
