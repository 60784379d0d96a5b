package openai_test

import (
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
)

// refusals are statuses of errors.
var refusals = map[string]judged{
	"Anthropic, a budget of its own": {
		status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your ` +
			`specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`,
		kind: httpcall.Quota, text: "regain access",
	},
	"Fireworks, suspended": {
		status: 412, body: `{"error":{"message":"Account a is suspended, possibly due to reaching the monthly spending ` +
			`limit or failure to pay past invoices.","code":"PRECONDITION_FAILED","type":"error"}}`,
		kind: httpcall.Quota,
	},
	"xAI, no credits": {
		status: 429, body: `{"code":"Some resource has been exhausted","error":"Your team t has either used all ` +
			`available credits or reached its monthly spending limit."}`,
		kind: httpcall.Quota, text: "spending limit",
	},
	"xAI, a new team": {
		status: 403, body: `{"code":"The caller does not have permission","error":"Your newly created team doesn't ` +
			`have any credits yet."}`,
		kind: httpcall.Quota,
	},
	"Gemini, prepaid": {
		status: 429, body: `{"error":{"code":429,"message":"Your prepayment credits are depleted.",` +
			`"status":"RESOURCE_EXHAUSTED"}}`,
		kind: httpcall.Quota,
	},
	"Perplexity, quota": {
		status: 401, body: `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":401}}`,
		kind: httpcall.Quota,
	},
	"OpenRouter, what the provider said": {
		status: 429, body: `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":` +
			`"{\"error\":{\"message\":\"slow\",\"retryDelay\":\"7s\"}}","provider_name":"P"}}}`,
		kind: httpcall.RateLimit, wait: 7 * time.Second,
	},
	"OpenRouter, moderated": {
		status: 403, body: `{"error":{"code":403,"message":"m requires moderation","metadata":{"reasons":["violence"]}}}`,
		kind: httpcall.Permanent,
	},
	"Bedrock, by its type alone": {
		status: 400, body: `{"__type":"com.amazonaws.bedrock#ThrottlingException","message":"Too many requests"}`,
		kind: httpcall.RateLimit,
	},
	"Bedrock, by its header alone": {
		status: 400, header: map[string]string{"X-Amzn-Errortype": "ThrottlingException:http://internal/coral/"},
		body: `{"message":"Too many tokens, please wait before trying again."}`, kind: httpcall.RateLimit,
	},
	"Bedrock, not ready": {
		status: 424, header: map[string]string{"X-Amzn-Errortype": "ModelNotReadyException"}, body: `{"message":"x"}`,
		kind: httpcall.Overload,
	},
	"Bedrock, through boto": {
		status: 500, body: `{"detail":"An error occurred (ThrottlingException) when calling the Converse operation ` +
			`(reached max retries: 4): Too many tokens per day"}`,
		kind: httpcall.RateLimit, text: "per day",
	},
	"Bedrock, invalid": {
		status: 400, header: map[string]string{"X-Amzn-Errortype": "ValidationException"}, body: `{"message":"x"}`,
		kind: httpcall.Permanent,
	},
	"Azure, a filter": {
		status: 400, body: `{"error":{"message":"filtered","param":"prompt","code":"content_filter","status":400,` +
			`"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
		kind: httpcall.Permanent, text: "content_filter",
	},
	"Azure API Management, rate": {
		status: 429, body: `{ "statusCode": 429, "message": "Rate limit is exceeded. Try again in 27 seconds." }`,
		kind: httpcall.RateLimit, wait: 27 * time.Second,
	},
	"Azure API Management, quota": {
		status: 403, header: map[string]string{"Retry-After": "2700"},
		body: `{ "statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 00:45:00." }`,
		kind: httpcall.RateLimit, wait: 45 * time.Minute,
	},
	"Together, dynamic": {
		status: 429, header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1"},
		body: `{"error":{"message":"x","type":"dynamic_request_limited"}}`, kind: httpcall.RateLimit, wait: time.Second,
	},
	"Mistral, its tier": {
		status: 429, body: `{"object":"error","message":"Service tier capacity exceeded for this model.",` +
			`"type":"service_tier_capacity_exceeded","code":"3505"}`,
		kind: httpcall.RateLimit,
	},
	"Cerebras, a day": {
		status: 429, header: map[string]string{"Retry-After": "86400"},
		body: `{"message":"Tokens per day limit exceeded","type":"too_many_tokens_error","code":"token_quota_exceeded"}`,
		kind: httpcall.RateLimit, wait: 24 * time.Hour,
	},
	"DeepSeek, invalid": {
		status: 422, body: `{"error":{"message":"Invalid Parameters","type":"invalid_request_error"}}`,
		kind: httpcall.Permanent,
	},
	"vLLM, too long": {
		status: 400,
		body:   `{"object":"error","message":"maximum context length is 4096","type":"BadRequestError","code":400}`,
		kind:   httpcall.Permanent,
	},
	"iFlow, by its status": {
		status: 449, body: `{"status":"449","msg":"You exceeded your rate"}`, kind: httpcall.RateLimit,
	},
	"express-rate-limit, draft 7": {
		status: 429, header: map[string]string{"RateLimit": "limit=100, remaining=0, reset=30"}, kind: httpcall.RateLimit,
		wait: 30 * time.Second,
	},
	"a prompt in the message": {
		status: 400,
		body:   `{"error":{"message":"invalid value: 'is there a spending limit?'","type":"invalid_request_error"}}`,
		kind:   httpcall.Permanent,
	},
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
