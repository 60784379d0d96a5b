package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/products/judge"
)

// maxBody bounds the size of a request, in bytes.
const maxBody = 16 << 20

// readBody reads a request. If it returns false, it has answered the request with an error.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "", "The body could not be read: "+err.Error())
		return nil, false
	}
	return body, true
}

// writeError writes an error object as OpenAI's API does. An empty code becomes null.
func writeError(w http.ResponseWriter, status int, kind, code, message string) {
	object := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		object["code"] = code
	}
	writeJSON(w, status, map[string]any{"error": object})
}

// writeRefusal answers 429, with the time until there is room in seconds (rounded up) and in milliseconds.
func writeRefusal(w http.ResponseWriter, v verdict) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(v.retryAfter.Seconds()))))
	w.Header().Set("Retry-After-Ms", strconv.FormatInt(ceilMilliseconds(v.retryAfter).Milliseconds(), 10))
	message := fmt.Sprintf("Rate limit reached for %s. Limit %g, requested %g. Please try again in %v.",
		v.meter, v.limit, v.need, ceilMilliseconds(v.retryAfter))
	if !v.fits {
		message = fmt.Sprintf("Request too large for %s. Limit %g, requested %g. The request must be reduced.",
			v.meter, v.limit, v.need)
	}
	writeError(w, http.StatusTooManyRequests, v.meter, "rate_limit_exceeded", message)
}

// writeLimits sends the limit, the remaining tokens and the time until full of each limited meter, without slack.
func writeLimits(w http.ResponseWriter, s standing) {
	if s.hidden {
		return
	}
	write := func(name string, m judge.Bucket) {
		if !m.Limited() {
			return
		}
		capacity := m.Capacity
		rest := math.Floor(max(0, min(m.Level, capacity)) + judge.Rounding)
		w.Header().Set("X-Ratelimit-Limit-"+name, strconv.FormatFloat(math.Floor(capacity), 'f', 0, 64))
		w.Header().Set("X-Ratelimit-Remaining-"+name, strconv.FormatFloat(rest, 'f', 0, 64))
		w.Header().Set("X-Ratelimit-Reset-"+name, ceilMilliseconds(m.Wait(capacity)).String())
	}
	write("Requests", s.requests)
	write("Tokens", s.tokens)
}

func ceilMilliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// textsOf returns the number of tokens of each text: a quarter of its characters, rounded up, or its token ids.
func textsOf(raw json.RawMessage) ([]int, error) {
	var value any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil || value == nil {
		return nil, errors.New("a text, or a list of texts, is missing")
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	if len(list) == 0 {
		return nil, errors.New("the list of texts is empty")
	}
	if _, ids := list[0].(float64); ids {
		list = []any{list}
	}
	texts := make([]int, len(list))
	for i, one := range list {
		if ids, ok := one.([]any); ok {
			texts[i] = len(ids)
			continue
		}
		texts[i] = (characters(one) + 3) / 4
	}
	return texts, nil
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// characters counts the characters of all texts in an input.
func characters(value any) (n int) {
	switch v := value.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case []any:
		for _, one := range v {
			n += characters(one)
		}
	case map[string]any:
		for _, field := range []string{"content", "text"} {
			n += characters(v[field])
		}
	}
	return n
}
