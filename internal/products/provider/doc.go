// Package provider is a stand-in for an LLM provider: an OpenAI-compatible HTTP server on loopback that enforces
// requests and tokens per period. The demo and the end-to-end tests run against it, and it counts their violations.
// So it shares no code with the limiter.
//
// # How it counts
//
// There is one token bucket for each meter (requests, tokens), filled by the server's own monotonic clock. The
// provider judges a request when its handler begins. It charges one request and an estimate of its tokens: prompt
// characters divided by four, rounded up, plus max_tokens. If any meter lacks room, it charges nothing, answers 429
// with Retry-After, and counts one violation.
//
// When the call ends, the provider corrects the estimate to the real usage, before the answer leaves. So a client
// never learns its usage before the server counts it. With [Config.KeepEstimate] the estimate stays.
//
// Every answer has OpenAI's X-Ratelimit headers for the two meters: the limit, the remaining tokens, rounded down,
// and the time until the bucket is full. They are true when the answer leaves, or when the request arrives: see
// [Config.HeadersOnArrival].
//
// Each bucket is larger than its limit by rate * [Config.Slack], because a request may travel faster than the request
// before it.
//
// With [Config.InFlight] the provider refuses a call above that number, and counts the violation in the same way.
//
// # What it does not do
//
// It has no streaming and no tools, and answers one choice for each request. The answer is a short fixed text,
// whatever usage it reports. The latency and the usage of an answer depend on the request's bytes alone.
package provider
