// Package provider is a stand-in for an LLM provider: an OpenAI-compatible HTTP server on loopback that enforces
// requests and tokens per period. The demo and the end-to-end tests run against it, and it is what counts their
// violations, so it shares no code with the limiter it judges.
//
// # How it counts
//
// There is one token bucket for each meter (requests, tokens), filled by the server's own monotonic clock. A request is
// judged at the moment its handler begins: it is charged one request and an estimate of its tokens (prompt characters
// divided by four, rounded up, plus max_tokens). If any meter lacks room, nothing is charged, the answer is a 429 with
// Retry-After, and one violation is counted.
//
// When the call ends, the estimate is corrected to what was really used, before the answer leaves, so a client never
// learns its usage earlier than the server counts it. With [Config.KeepEstimate] the estimate stays.
//
// Every answer carries OpenAI's X-Ratelimit headers for the two meters: the limit, what is left of it, rounded down, and the time until
// it is full, as of the moment at which the answer leaves (or the request came, see [Config.HeadersOnArrival]).
//
// Each bucket is larger than its limit by rate * [Config.Slack], for requests that travel faster than their predecessors.
//
// With [Config.InFlight] a call that would be one too many at once is refused and counted in the same way.
//
// # What it does not do
//
// No streaming, no tools, one choice for each request, and an answer is a short fixed text: only its usage is of the
// announced size. How long an answer takes and what it uses depend on the request's bytes and the seed alone.
package provider
