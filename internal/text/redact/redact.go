// Package redact takes secrets out of texts by their values, before a text leaves the package that sent them.
//
// A secret is found in any case of ASCII letters, and with any of its characters escaped as in JSON, Go, URLs or HTML.
// Examples are `\/`, `\u002B`, `\u{2b}`, `\x2b`, `%2B`, `&#43;` and `&amp;`, also where JSON is quoted in JSON. A
// secret is also found as base64 or hexadecimal digits, even in the middle of a longer text. Spaces around a value do
// not count, and a value with a scheme, such as "Bearer KEY", is two secrets: both together, and the key. A part of a
// secret, or another encoding of it (lines of base64, spaces between letters), is not found. Values of fewer than
// [Shortest] bytes occur by chance and stay. The time is linear in the length of the text, however many secrets there
// are.
package redact

import (
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	// Shortest is the length in bytes from which on a value is taken for a secret.
	Shortest = 6
	// Mark stands where a secret was. It is shorter than any secret, so that texts never grow.
	Mark = "***"
)

// Secrets are the values that a text must not hold. The zero value has none. Safe for concurrent use.
type Secrets struct{ forms automaton }

// New returns the secrets with these values.
func New(values ...string) Secrets {
	var forms []string
	for _, value := range values {
		for _, part := range parts(value) {
			if len(part) >= Shortest {
				forms = append(forms, formsOf(part)...)
			}
		}
	}
	return Secrets{newAutomaton(forms)}
}

// Text is a text without the secrets.
func (s Secrets) Text(text string) string { return string(s.Bytes([]byte(text))) }

// Bytes takes the secrets out of a body, which it changes, and returns what is left of it.
func (s Secrets) Bytes(body []byte) []byte { return cut(body, s.forms.find(body)) }

// cut puts the mark in the place of each span.
func cut(text []byte, spans []span) []byte {
	left, from := 0, 0
	for _, s := range spans {
		left += copy(text[left:], text[from:s.from])
		left += copy(text[left:], Mark)
		from = s.to
	}
	if from == 0 {
		return text
	}
	return text[:left+copy(text[left:], text[from:])]
}

// Error is err with a text without the secrets, of at most that many bytes. It matches what err matches, and has no
// chain that leads to err's text. Nil stays nil.
func (s Secrets) Error(err error, most int) error {
	if err == nil {
		return nil
	}
	return &redacted{
		text: Cut(s.Text(err.Error()), most),
		is:   func(target error) bool { return errors.Is(err, target) },
		as:   func(target any) bool { return errors.As(err, target) },
	}
}

// Cut is a text as UTF-8, or its first bytes where it has more than most. A text is redacted first and cut then.
func Cut(text string, most int) string {
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// redacted has the error in functions, so that no format, not even %#v, prints it.
type redacted struct {
	text string
	is   func(target error) bool
	as   func(target any) bool
}

func (e *redacted) Error() string        { return e.text }
func (e *redacted) Is(target error) bool { return e.is(target) }
func (e *redacted) As(target any) bool   { return e.as(target) }
