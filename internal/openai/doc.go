// Package openai reads the format of OpenAI's API, which other providers use too: the bodies of requests, the usage in
// answers, and the headers about rate limits. It makes no calls.
package openai
