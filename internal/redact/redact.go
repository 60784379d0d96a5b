// Package redact takes secrets out of texts by their values, before a text leaves the package that sent them.
//
// A secret is found as it is, in any case of ASCII letters, and as Go and JSON quote it or a URL escapes it. A part of a
// secret, or another encoding of it, is not found. Values of fewer than [Shortest] bytes occur by chance and stay.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Shortest is the length in bytes from which on a value is taken for a secret.
const Shortest = 6

// Secrets are the values that a text must not hold. The zero value has none. Safe for concurrent use.
type Secrets struct {
	mark   string
	forms  []string // as they are, the longest first
	folded []string // the same in small letters
}

// New returns the secrets with these values; mark stands in their place.
func New(mark string, values ...string) Secrets {
	s := Secrets{mark: mark}
	for _, value := range values {
		if len(value) >= Shortest {
			s.forms = append(s.forms, forms(value)...)
		}
	}
	slices.SortFunc(s.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s.forms = slices.Compact(s.forms)
	for _, form := range s.forms {
		s.folded = append(s.folded, fold(form))
	}
	return s
}

// forms are the ways in which a value may stand in a text.
func forms(value string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	all := []string{value, inner(strconv.Quote(value)), inner(strconv.QuoteToASCII(value)), url.QueryEscape(value), url.PathEscape(value)}
	if text, err := json.Marshal(value); err == nil {
		all = append(all, inner(string(text)))
	}
	return all
}

// Text is a text without the secrets.
func (s Secrets) Text(text string) string {
	if len(s.forms) == 0 {
		return text
	}
	var b strings.Builder
	for low := fold(text); ; {
		at, length := first(low, s.folded)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:at] + s.mark)
		text, low = text[at+length:], low[at+length:]
	}
}

// first finds the form that begins first in the text, the longest of them; below zero where there is none.
func first(text string, forms []string) (at, length int) {
	at = -1
	for _, form := range forms {
		if i := strings.Index(text, form); i >= 0 && (at < 0 || i < at) {
			at, length = i, len(form)
		}
	}
	return at, length
}

// Bytes is a body without the secrets, in the case of letters that they have. A body without any is returned as it is.
func (s Secrets) Bytes(body []byte) []byte {
	for _, form := range s.forms {
		if bytes.Contains(body, []byte(form)) {
			body = bytes.ReplaceAll(body, []byte(form), []byte(s.mark))
		}
	}
	return body
}

// Error is err with a text without the secrets, of which at most so many bytes are shown. It matches what err matches, and has
// no chain that leads to err's text. Nil stays nil.
func (s Secrets) Error(err error, most int) error {
	if err == nil {
		return nil
	}
	return &redacted{text: Cut(s.Text(err.Error()), most), err: err}
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

type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string        { return e.text }
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redacted) As(target any) bool   { return errors.As(e.err, target) }

// fold makes ASCII letters small and keeps the place of each byte.
func fold(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
