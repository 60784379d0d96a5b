package web

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// Answer is the answer to a call.
type Answer struct {
	StatusCode int
	// Header is the stored part of the answer's headers: its type, date, name, location and limits. No cookies.
	Header map[string]string
	// Body is the unpacked body, otherwise unchanged.
	Body []byte
	// RequestID is the service's ID of the call. It may be empty.
	RequestID string
}

// MarshalJSON writes {"status", "header", "body"}. It writes a JSON body unchanged, other text as a string, and
// anything else, e.g. text with control characters, as "body_base64". A body is at most twice as long there. If
// encoding/json calls MarshalJSON, it writes up to six bytes for each '<', '>' and '&'.
func (a Answer) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Status int               `json:"status"`
		Header map[string]string `json:"header,omitempty"`
	}{a.StatusCode, a.Header})
	if err != nil || len(a.Body) == 0 {
		return head, err
	}
	head = head[:len(head)-1] // removes the closing brace
	n, text := escapes(a.Body)
	switch {
	case json.Valid(a.Body):
		all := bytes.NewBuffer(roomy(head, len(a.Body)+len(`,"body":}`)))
		all.WriteString(`,"body":`)
		err = json.Compact(all, a.Body)
		all.WriteByte('}')
		return all.Bytes(), err
	case text:
		head = append(roomy(head, len(a.Body)+n+len(`,"body":""}`)), `,"body":"`...)
		for _, c := range a.Body {
			if e := escape(c); e != 0 {
				head, c = append(head, '\\'), e
			}
			head = append(head, c)
		}
	default:
		length := base64.StdEncoding.EncodedLen(len(a.Body))
		head = append(roomy(head, length+len(`,"body_base64":""}`)), `,"body_base64":"`...)
		head = base64.StdEncoding.AppendEncode(head, a.Body)
	}
	return append(head, `"}`...), nil
}

// roomy returns a copy of text with room for more bytes.
func roomy(text []byte, more int) []byte { return append(make([]byte, 0, len(text)+more), text...) }

// escape returns the second byte of a character's escape in JSON, or zero if the character has none.
func escape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

// escapes counts the characters of a body that have an escape. Text is true if the body is UTF-8 without other
// control characters.
func escapes(body []byte) (n int, text bool) {
	for _, c := range body {
		switch {
		case escape(c) != 0:
			n++
		case c < ' ':
			return 0, false
		}
	}
	return n, utf8.Valid(body)
}

// kept returns the part of an answer's headers that is stored.
func kept(h http.Header) map[string]string {
	names := []string{
		"Content-Language", "Content-Type", "Date", "Etag", "Last-Modified", "Link", "Location", "Retry-After",
		"X-Request-Id",
	}
	header := map[string]string{}
	for name, values := range h {
		if slices.Contains(names, name) || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit-") {
			header[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		}
	}
	return header
}

func requestID(h http.Header) string { return cmp.Or(h.Get("X-Request-Id"), h.Get("Request-Id")) }
