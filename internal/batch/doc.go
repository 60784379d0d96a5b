// Package batch reads files in the input format of OpenAI's Batch API: JSON lines, each with a custom_id, a method, a
// url and a body.
//
//	{"custom_id": "a-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": [...]}}
//	{"custom_id": "a-2", "method": "PUT", "url": "https://api.example/2", "headers": {...}, "charge": {"requests": 1}}
//
// The url is one of llm.Endpoints, as OpenAI accepts them. An absolute url is a request of its own, of any method, with
// headers and a charge; it is not part of that format.
//
// A file is read as a stream: memory is bounded by the longest line, and by some 30 bytes a line to find a custom_id
// that is used twice. A line at fault gives a [*LineError], and the reader continues after it.
package batch
