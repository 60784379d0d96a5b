package web

import (
	"cmp"
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

// MarshalJSON writes {"status", "header", "body"}: a body of JSON as it is, other text as a text, and anything else as "body_base64".
func (a Answer) MarshalJSON() ([]byte, error) {
	text := struct {
		Status int               `json:"status"`
		Header map[string]string `json:"header,omitempty"`
		Body   any               `json:"body,omitempty"`
		Base64 []byte            `json:"body_base64,omitempty"`
	}{Status: a.StatusCode, Header: a.Header}
	switch {
	case len(a.Body) == 0:
	case json.Valid(a.Body):
		text.Body = json.RawMessage(a.Body)
	case utf8.Valid(a.Body):
		text.Body = string(a.Body)
	default:
		text.Base64 = a.Body
	}
	return json.Marshal(text)
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
