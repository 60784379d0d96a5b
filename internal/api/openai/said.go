package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
)

// Said is what a provider says of an error, empty where it says nothing.
type Said struct {
	Code, Type, Param, Message string
	// Wait is how long the fields of a body ask to wait.
	Wait time.Duration

	marks []string // all codes, types and reasons; the number of an error_code with the name of its field
}

// saidDepth bounds how deep an error is looked for in a body.
const saidDepth = 6

// read reads an error from a body of any shape:
//
//   - {"error": {...}} of OpenAI and most others, a list of it (Gemini), or a text in its place (Ollama, Hugging Face).
//   - base_resp (MiniMax), error_code and error_msg (ERNIE), errors (Cloudflare), Error (Tencent), detail (FastAPI).
//   - A message of its own (Cohere, Mistral), and such a body quoted in a message.
func read(value any, now time.Time) Said { return readAt(value, now, saidDepth) }

func readAt(value any, now time.Time, depth int) (s Said) {
	if depth == 0 {
		return s
	}
	switch v := value.(type) {
	case []any:
		for _, one := range v[:min(len(v), saidDepth)] {
			s = s.or(readAt(one, now, depth-1))
		}
	case string:
		s.Message = v
		if text := strings.TrimSpace(v); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
			if inner, ok := decoded([]byte(text)); ok {
				s = readAt(inner, now, depth-1).or(s)
			}
		}
	case map[string]any:
		s = fieldsOf(v, now)
		for _, name := range []string{
			"message", "Message", "msg", "error_msg", "status_msg", "error_message", "error_description", "errorMsg", "detail",
		} {
			if text, ok := v[name]; ok && s.Message == "" {
				inner := readAt(spelled(text), now, depth-1)
				s, s.Message = s.or(inner), inner.Message
			}
		}
		for _, name := range []string{"error", "Error", "errors", "base_resp", "Response", "details", "metadata", "raw"} {
			switch inner := v[name].(type) {
			case string:
				if below := readAt(inner, now, depth-1); s.Message == "" {
					s = below.or(s)
				} else {
					s.marks = append(s.marks, inner) // of OAuth: a code beside its description
				}
			case map[string]any, []any:
				below := readAt(inner, now, depth-1)
				if name == "details" || name == "metadata" { // they only add to what is said
					s = s.or(below)
				} else {
					s = below.or(s)
				}
			}
		}
	}
	return s
}

// fieldsOf reads what an object says itself.
func fieldsOf(v map[string]any, now time.Time) (s Said) {
	for _, name := range []string{"code", "Code", "error_code", "status_code", "errorCode", "err_code", "reason"} {
		word := wordOf(v[name])
		s.Code = cmp.Or(s.Code, word)
		if name == "error_code" || name == "status_code" {
			word = name + "." + word
		}
		s.marks = append(s.marks, word)
	}
	for _, name := range []string{"type", "error_type", "status", "__type"} {
		word := wordOf(v[name])
		word = word[strings.LastIndex(word, "#")+1:] // of AWS: the name of a service before it
		s.Type = cmp.Or(s.Type, word)
		s.marks = append(s.marks, word)
	}
	s.Param = wordOf(v["param"])
	s.Wait = waitIn(v, now)
	return s
}

// spelled is a text, or the JSON of a list or of a number in its place.
func spelled(value any) any {
	switch value.(type) {
	case string, map[string]any, nil:
		return value
	}
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}

// or adds what other says and s does not.
func (s Said) or(other Said) Said {
	return Said{
		Code: cmp.Or(s.Code, other.Code), Type: cmp.Or(s.Type, other.Type), Param: cmp.Or(s.Param, other.Param),
		Message: cmp.Or(s.Message, other.Message), Wait: cmp.Or(s.Wait, other.Wait),
		marks: slices.Concat(s.marks, other.marks),
	}
}

// wordOf is a text or a number; empty for anything else, and for zero, the code of success.
func wordOf(value any) string {
	switch word := value.(type) {
	case string:
		return word
	case json.Number:
		if n, err := word.Float64(); err != nil || n != 0 {
			return word.String()
		}
	}
	return ""
}

// waitIn reads the fields of an object that name a time to wait: RetryInfo of Google, estimated_time of Hugging Face,
// retry_after of many, and the headers that OpenRouter puts into metadata.
func waitIn(v map[string]any, now time.Time) time.Duration {
	for _, field := range []struct {
		name string
		unit time.Duration
	}{
		{"retryDelay", time.Second},
		{"retry_delay", time.Second},
		{"retry_after_ms", time.Millisecond},
		{"retryAfterMs", time.Millisecond},
		{"retry_after", time.Second},
		{"retryAfter", time.Second},
		{"retry_after_seconds", time.Second},
		{"retryAfterSeconds", time.Second},
		{"retry-after", time.Second},
		{"estimated_time", time.Second},
	} {
		text := ""
		switch value := v[field.name].(type) {
		case string:
			text = value
		case json.Number:
			text = value.String()
		case map[string]any: // a duration in parts
			seconds, _ := strconv.ParseFloat(fmt.Sprint(value["seconds"]), 64)
			nanos, _ := strconv.ParseFloat(fmt.Sprint(value["nanos"]), 64)
			text = strconv.FormatFloat(seconds+nanos/1e9, 'f', -1, 64)
		}
		if d, _, ok := httpcall.When(text, field.unit, now); ok && d > 0 {
			return d
		}
	}
	if headers, ok := v["headers"].(map[string]any); ok {
		h := http.Header{}
		for name, value := range headers {
			h.Set(name, fmt.Sprint(value))
		}
		_, wait := httpcall.Classify(http.StatusTooManyRequests, h, now)
		return wait
	}
	return 0
}

// decoded decodes a body. Numbers stay as they are written.
func decoded(body []byte) (value any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return value, d.Decode(&value) == nil
}
