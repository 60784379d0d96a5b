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

// Answer is what a call brought.
type Answer struct {
	StatusCode int
	// Header are those of the answer that say something of it: its type, date, name, place and limits. No cookies.
	Header map[string]string
	// Body is as it came, unpacked.
	Body []byte
	// RequestID is the service's name for the call; empty where it gave none.
	RequestID string
}

// MarshalJSON writes {"status", "header", "body"}: a body of JSON as it is, other text as a text, and anything else,
// such as text with control characters, as "body_base64". A body is at most twice as long there. encoding/json, where
// it calls MarshalJSON, writes up to six bytes for each of '<', '>' and '&'.
func (a Answer) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Status int               `json:"status"`
		Header map[string]string `json:"header,omitempty"`
	}{a.StatusCode, a.Header})
	if err != nil || len(a.Body) == 0 {
		return head, err
	}
	head = head[:len(head)-1] // as long as it is open
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

// roomy is a text in memory of its own, with room for so many bytes more.
func roomy(text []byte, more int) []byte { return append(make([]byte, 0, len(text)+more), text...) }

// escape is the second byte of the escape that a character of a text has in JSON, or zero for none.
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

// escapes says how many characters of a body have an escape, and whether it is a text: UTF-8 without other control
// characters.
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

// kept is the part of an answer's headers that is kept.
func kept(h http.Header) map[string]string {
	names := []string{"Content-Language", "Content-Type", "Date", "Etag", "Last-Modified", "Link", "Location", "Retry-After", "X-Request-Id"}
	header := map[string]string{}
	for name, values := range h {
		if slices.Contains(names, name) || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit-") {
			header[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		}
	}
	return header
}

func requestID(h http.Header) string { return cmp.Or(h.Get("X-Request-Id"), h.Get("Request-Id")) }
