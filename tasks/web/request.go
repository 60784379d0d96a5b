package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/tasks"
)

// TaskType is the type of the tasks that a Request makes.
const TaskType = "web:request"

// Request is one HTTP request as a task.
type Request struct {
	// Terms are what the request takes from limits, and how it shares them.
	tasks.Terms
	// Method is GET where it is empty.
	Method string `json:"method,omitempty"`
	// URL is absolute, of http or https, without a user.
	URL string `json:"url"`
	// Header is what is sent beside what every request has. A value may hold ${NAME}, see the package.
	Header map[string]string `json:"header,omitempty"`
	// Body is sent as it is, where it is a JSON text as that text. Empty means no body. Where Header names no Content-Type it is
	// application/json, or text/plain for a text.
	Body json.RawMessage `json:"body,omitempty"`
	// OK are the statuses that are an answer. Empty means all of 2xx.
	OK []int `json:"ok,omitempty"`
	// TimeoutSeconds bounds the call where it is less than the client's Timeout. Zero means that.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
}

// TaskType implements tasks.Args.
func (Request) TaskType() string { return TaskType }

// methodLength is the length of the longest method, in bytes.
const methodLength = 40

// Validate returns a *RequestError for the first fault that needs no client to see, or nil.
func (r Request) Validate() error {
	if r.Method != "" && !isToken(r.Method) || len(r.Method) > methodLength || r.Method == http.MethodConnect {
		return &RequestError{Field: "method", Problem: fmt.Sprintf("%.40q can't be sent", r.Method)}
	}
	if _, _, err := r.target(); err != nil {
		return err
	}
	for _, name := range sorted(r.Header) {
		if err := checkHeader(name, r.Header[name]); err != nil {
			return err
		}
	}
	if len(r.Body) > 0 && !json.Valid(r.Body) {
		return &RequestError{Field: "body", Problem: "is not valid JSON; a text stands in quotes"}
	}
	if i := slices.IndexFunc(r.OK, func(status int) bool { return status < 200 || status > 599 }); i >= 0 {
		return &RequestError{Field: "ok", Problem: fmt.Sprintf("%d is no status that ends a request", r.OK[i])}
	}
	if !(r.TimeoutSeconds >= 0) {
		return &RequestError{Field: "timeout_seconds", Problem: "must not be negative"}
	}
	return nil
}

// target is the parsed URL, and where it goes.
func (r Request) target() (*url.URL, origin, error) {
	fault := func(problem string) (*url.URL, origin, error) {
		return nil, origin{}, &RequestError{Field: "url", Problem: problem}
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return fault("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fault("must be absolute, of http or https") // without itself, which may hold a password
	case u.User != nil:
		return fault("holds a user: send an Authorization header with a ${NAME} instead")
	}
	to, err := originOf(u)
	if err != nil {
		return fault(fmt.Sprintf("has the host %.200q, which %v", u.Hostname(), err))
	}
	return u, to, nil
}

// content is what is sent, and of which type.
func (r Request) content() (body []byte, kind string) {
	if len(r.Body) == 0 {
		return nil, ""
	}
	var text string
	if r.Body[0] == '"' && json.Unmarshal(r.Body, &text) == nil {
		return []byte(text), "text/plain; charset=utf-8"
	}
	return r.Body, "application/json"
}

// accepts says whether the status is an answer.
func (r Request) accepts(status int) bool {
	if len(r.OK) == 0 {
		return status >= 200 && status < 300
	}
	return slices.Contains(r.OK, status)
}

// timeout bounds the call.
func (r Request) timeout(most time.Duration) time.Duration {
	if r.TimeoutSeconds > 0 && r.TimeoutSeconds < most.Seconds() {
		return time.Duration(r.TimeoutSeconds * float64(time.Second))
	}
	return most
}

// ownHeaders are those that the connection itself is made of. An answer that a task had packed by Accept-Encoding would
// stay packed, and nothing would find a secret in it.
func ownHeaders() []string {
	return []string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}
}

func checkHeader(name, value string) error {
	fault := func(problem string) error {
		return &RequestError{Field: fmt.Sprintf("header.%.60s", name), Problem: problem}
	}
	switch {
	case !isToken(name):
		return &RequestError{Field: "header", Problem: fmt.Sprintf("%.60q is no name of a header", name)}
	case slices.Contains(ownHeaders(), textproto.CanonicalMIMEHeaderKey(name)):
		return fault("is not a request's to set")
	case !isValue(value):
		return fault("has a control character in its value")
	}
	return nil
}

// isToken says whether a text can be a method or the name of a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// isValue says whether a text can be the value of a header: it must not begin another one.
func isValue(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
