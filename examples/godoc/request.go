package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a request: the longest documentation sent, in bytes, and of max_tokens.
const (
	longestDoc     = 10_000
	leastMaxTokens = 100
	mostMaxTokens  = 1500
)

// request is a line of the output.
type request struct {
	CustomID string `json:"custom_id"`
	Method   string `json:"method"`
	URL      string `json:"url"`
	Body     chat   `json:"body"`
}

type chat struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// requestOf asks for an explanation. max_tokens grows with the documentation, by a share that varies by subject.
func requestOf(s subject, version string) request {
	text := shortened(s.doc, longestDoc)
	percent := 80 + int(s.dice("answer")%200) // of the prompt's tokens, at four bytes per token
	maxTokens := min(max(leastMaxTokens, len(text)/4*percent/100), mostMaxTokens) / 10 * 10
	return request{
		CustomID: s.id,
		Method:   "POST",
		URL:      "/v1/chat/completions",
		Body: chat{
			Model: "gpt-4o-mini",
			Messages: []message{
				{Role: "system", Content: "You explain the APIs of Go's standard library (" + version +
					") to programmers who know the language well. Be exact and brief, and say what to watch out for."},
				{Role: "user", Content: fmt.Sprintf("Explain when to use %s, and when not to.\n\n%s", s.name, text)},
			},
			MaxTokens: maxTokens,
		},
	}
}

// shortened cuts a text at the end of a line.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := text[:most]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	if end := strings.LastIndexByte(cut, '\n'); end > 0 {
		cut = cut[:end]
	}
	return strings.TrimSpace(cut) + "\n\n(and more)"
}
