// Package batch reads files in the input format of OpenAI's Batch API: JSON lines, each with a custom_id, a method, a
// url and a body.
//
//	{"custom_id": "a-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": [...]}}
//	{"custom_id": "a-2", "method": "PUT", "url": "https://api.example/2", "headers": {...}, "charge": {"requests": 1}}
//
// The url is one of openai.Endpoints, as OpenAI accepts them. As an extension of the format, an absolute url is an HTTP
// request of its own, of any method, with headers and a charge.
//
// A Reader reads a file as a stream. Its memory is bounded by the longest line, and by about 30 bytes a line to find
// duplicate custom_ids. An invalid line gives a [*LineError], and the reader continues after it.
package batch
