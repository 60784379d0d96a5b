package gateway

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"
)

// fault is an error that the gateway itself answers with.
type fault struct {
	status        int
	code, message string
	param         string // the field of the request, if one is at fault
	header        http.Header

	retry   time.Duration // when a retry may succeed; zero where no time is known
	noRetry bool          // a retry is in vain, or can't come at the right time
}

// body is the error as the clients of a family decode it.
func (f fault) body(of family) []byte {
	kind := "invalid_request_error"
	if of == familyAnthropic {
		switch {
		case f.status == http.StatusUnauthorized:
			kind = "authentication_error"
		case f.status == http.StatusForbidden:
			kind = "permission_error"
		case f.status == http.StatusNotFound:
			kind = "not_found_error"
		case f.status == http.StatusRequestEntityTooLarge:
			kind = "request_too_large"
		case f.status == http.StatusTooManyRequests:
			kind = "rate_limit_error"
		case f.status == http.StatusServiceUnavailable:
			kind = "overloaded_error"
		case f.status >= http.StatusInternalServerError:
			kind = "api_error"
		}
		text, _ := json.Marshal(map[string]any{ // texts have no fault
			"type": "error", "error": map[string]string{"type": kind, "message": f.message},
		})
		return text
	}
	switch {
	case f.code == codeBudget:
		kind = codeBudget
	case f.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case f.status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	object := map[string]any{"message": f.message, "type": kind, "param": nil, "code": nil}
	if f.param != "" {
		object["param"] = f.param
	}
	if f.code != "" {
		object["code"] = f.code
	}
	text, _ := json.Marshal(map[string]any{"error": object}) // as above
	return text
}

// writeFault answers with an error.
func writeFault(w http.ResponseWriter, of family, f fault) {
	h := w.Header()
	maps.Copy(h, f.header)
	h.Set("Content-Type", "application/json")
	if f.retry > 0 {
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(float64(f.retry)/1e6)), 10))
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(f.retry.Seconds())), 10))
	}
	if f.noRetry {
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body(of)) //nolint:gosec,nolintlint // JSON; gosec sees a page only sometimes
}
