package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/tasks"
)

// TaskType is the type of tasks with a Request.
const TaskType = "web:request"

// Request is one HTTP request as a task.
type Request struct {
	// Terms are the charges of the request, and how it shares its limits.
	tasks.Terms
	// Method is GET if empty.
	Method string `json:"method,omitempty"`
	// URL is an absolute URL of http or https, without a user.
	URL string `json:"url"`
	// Header is sent beside the standard headers. A value may contain ${NAME}: see the package.
	Header map[string]string `json:"header,omitempty"`
	// Body is sent unchanged; of a JSON string, the string is sent. Empty means no body. The default Content-Type is
	// application/json, or text/plain for a string.
	Body json.RawMessage `json:"body,omitempty"`
	// OK are the statuses that count as an answer. Empty means all of 2xx.
	OK []int `json:"ok,omitempty"`
	// TimeoutSeconds bounds the call, if it is less than the client's Timeout. Zero means the client's Timeout.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
}

// TaskType implements tasks.Args.
func (Request) TaskType() string { return TaskType }

// methodLength is the length of the longest method, in bytes.
const methodLength = 40

// validate returns the first fault outside of the URL that does not depend on a client, or nil.
func (r Request) validate() error {
	isToken := r.Method == "" || httpguts.ValidHeaderFieldName(r.Method)
	if !isToken || len(r.Method) > methodLength || r.Method == http.MethodConnect {
		return unsendable("method", "%.40q can't be sent", r.Method)
	}
	for _, name := range sorted(r.Header) {
		if err := checkHeader(name, r.Header[name]); err != nil {
			return err
		}
	}
	if len(r.Body) > 0 && !json.Valid(r.Body) {
		return unsendable("body", "is not valid JSON; put a text in quotes")
	}
	if i := slices.IndexFunc(r.OK, func(status int) bool { return status < 200 || status > 599 }); i >= 0 {
		return unsendable("ok", "%d is not a final HTTP status", r.OK[i])
	}
	if !(r.TimeoutSeconds >= 0) {
		return unsendable("timeout_seconds", "must not be negative")
	}
	return nil
}

// target returns the parsed URL and its origin.
func (r Request) target() (*url.URL, origin, error) {
	fault := func(format string, args ...any) (*url.URL, origin, error) {
		return nil, origin{}, unsendable("url", format, args...)
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return fault("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fault("must be absolute, of http or https") // without itself, which may hold a password
	case u.User != nil:
		return fault("contains a user: send an Authorization header with a ${NAME} instead")
	}
	to, err := originOf(u)
	if err != nil {
		return fault("has the host %.200q, which %v", u.Hostname(), err)
	}
	return u, to, nil
}

// content returns the body to send and its content type.
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

// accepts returns whether the status counts as an answer.
func (r Request) accepts(status int) bool {
	if len(r.OK) == 0 {
		return status >= 200 && status < 300
	}
	return slices.Contains(r.OK, status)
}

// timeout returns the timeout of the call.
func (r Request) timeout(most time.Duration) time.Duration {
	if r.TimeoutSeconds > 0 && r.TimeoutSeconds < most.Seconds() {
		return time.Duration(r.TimeoutSeconds * float64(time.Second))
	}
	return most
}

func checkHeader(name, value string) error {
	field := fmt.Sprintf("header.%.60s", name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return unsendable("header", "%.60q is not a valid name of a header", name)
	case httpcall.OfTransport(name):
		return unsendable(field, "can't be set by a request")
	case !httpguts.ValidHeaderFieldValue(value):
		return unsendable(field, "has a control character in its value")
	}
	return nil
}
