package batch

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/openai"
)

// checkBody checks the fields that every call of the url needs, and returns the invalid field.
func checkBody(to string, raw json.RawMessage) (string, error) {
	if absent(raw) {
		return "body", ErrMissingField
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "body", fmt.Errorf("%w: not an object", ErrBody)
	}
	var model string
	// The model of a moderation has a default, and a response may use a stored prompt.
	optional := to == openai.Moderations || to == openai.Responses && !absent(fields["prompt"])
	if !optional || !absent(fields["model"]) {
		if err := nonEmpty(fields["model"], &model); err != nil {
			return "body.model", fmt.Errorf("%w: %w", ErrBody, err)
		}
		if err := checkName(model, fields["model"]); err != nil {
			return "body.model", fmt.Errorf("%w: %w", ErrBody, err)
		}
	}
	content := contentOf(to, fields)
	if absent(fields[content]) {
		return "body." + content, fmt.Errorf("%w: %w", ErrBody, ErrMissingField)
	}
	if to == openai.Chat {
		return checkMessages(fields[content])
	}
	if text := string(fields[content]); text == `""` || text == "[]" {
		return "body." + content, fmt.Errorf("%w: %w", ErrBody, ErrMissingField)
	}
	return "", nil
}

// contentOf returns the field of a body with its input.
func contentOf(to string, fields map[string]json.RawMessage) string {
	switch {
	case to == openai.Chat:
		return "messages"
	case to == openai.Completions, to == openai.Responses && absent(fields["input"]) &&
		!absent(fields["prompt"]):
		return "prompt"
	default:
		return "input"
	}
}

func checkMessages(raw json.RawMessage) (string, error) {
	var messages []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &messages); err != nil || slices.ContainsFunc(messages,
		func(m map[string]json.RawMessage) bool { return m == nil }) {
		return "body.messages", fmt.Errorf("%w: not a list of objects", ErrBody)
	}
	if len(messages) == 0 {
		return "body.messages", fmt.Errorf("%w: %w", ErrBody, ErrMissingField)
	}
	return "", nil
}

// readHTTP reads the fields of a line with an absolute URL, and returns the invalid field. It does not check whether
// the request can be sent.
func readHTTP(l *Line, fields map[string]json.RawMessage) (string, error) {
	if strings.ToUpper(l.Method) != l.Method {
		return "method", fmt.Errorf("%w %q: write methods in capitals", ErrMethod, shorten(l.Method))
	}
	if u, err := url.Parse(l.URL); err != nil || u.Host == "" {
		return "url", fmt.Errorf("%w %q, not a URL", ErrUnknownURL, shorten(l.URL))
	}
	if raw := fields["headers"]; !absent(raw) {
		if err := json.Unmarshal(raw, &l.Headers); err != nil {
			return "headers", jsonError(err)
		}
	}
	if raw := fields["charge"]; !absent(raw) {
		if err := json.Unmarshal(raw, &l.Charge); err != nil {
			return "charge", jsonError(err)
		}
	}
	if !absent(fields["body"]) {
		l.Body = fields["body"]
	}
	return "", nil
}
