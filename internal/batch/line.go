package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"
)

// URLChatCompletions is the url that is supported.
const URLChatCompletions = "/v1/chat/completions"

// Line is a request of a batch file.
type Line struct {
	Number   int             // of the line in the file, from 1; blank lines count
	CustomID string          // unique in the file
	Method   string          // POST
	URL      string          // [URLChatCompletions]
	Body     json.RawMessage // a JSON object that has a model and messages, as it stands in the file
}

// parse reads one line without its line break. last says that the file ends with it and has no line break there.
func parse(number int, text []byte, last bool) (Line, *LineError) {
	fault := func(field string, err error) (Line, *LineError) {
		return Line{}, &LineError{Line: number, Field: field, Err: err}
	}
	// A map, because a struct would accept fields in any case of letters.
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	switch {
	case last && cutOff(text, err):
		return fault("", ErrTruncated) // Maybe in the middle of a character, so before UTF-8 is looked at.
	case !utf8.Valid(text):
		return fault("", ErrUTF8)
	case err != nil:
		return fault("", jsonError(err))
	}
	line := Line{Number: number}
	for _, f := range []struct {
		name   string
		target *string
	}{{"custom_id", &line.CustomID}, {"method", &line.Method}, {"url", &line.URL}} {
		if err := nonEmpty(fields[f.name], f.target); err != nil {
			return fault(f.name, err)
		}
	}
	if line.Method != http.MethodPost {
		return fault("method", fmt.Errorf("%w %q, supported: POST", ErrMethod, shorten(line.Method)))
	}
	if line.URL != URLChatCompletions {
		return fault("url", fmt.Errorf("%w %q, supported: %s", ErrUnknownURL, shorten(line.URL), URLChatCompletions))
	}
	if field, err := checkBody(fields["body"]); err != nil {
		return fault(field, err)
	}
	line.Body = fields["body"]
	return line, nil
}

// nonEmpty reads a field that must be a text, and not an empty one.
func nonEmpty(raw json.RawMessage, target *string) error {
	if absent(raw) {
		return ErrMissingField
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return jsonError(err)
	}
	if strings.TrimSpace(*target) == "" {
		return ErrMissingField
	}
	return nil
}

// checkBody looks at what every chat completion needs, and returns the field at fault.
func checkBody(raw json.RawMessage) (string, error) {
	if absent(raw) {
		return "body", ErrMissingField
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "body", fmt.Errorf("%w: not an object", ErrBody)
	}
	var model string
	if err := nonEmpty(fields["model"], &model); err != nil {
		return "body.model", fmt.Errorf("%w: %w", ErrBody, err)
	}
	if absent(fields["messages"]) {
		return "body.messages", fmt.Errorf("%w: %w", ErrBody, ErrMissingField)
	}
	var messages []map[string]json.RawMessage
	if err := json.Unmarshal(fields["messages"], &messages); err != nil {
		return "body.messages", fmt.Errorf("%w: not a list of objects", ErrBody)
	}
	if len(messages) == 0 {
		return "body.messages", fmt.Errorf("%w: %w", ErrBody, ErrMissingField)
	}
	return "", nil
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

func jsonError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: got %s, want %s", ErrJSON, wrong.Value, kindOf(wrong))
	}
	return fmt.Errorf("%w: %w", ErrJSON, err)
}

// kindOf names in JSON's words what a Go type wants.
func kindOf(wrong *json.UnmarshalTypeError) string {
	if wrong.Type.Kind() == reflect.Map {
		return "object"
	}
	return wrong.Type.Kind().String()
}

// cutOff tells a text that ends too early from one that is wrong somewhere before its end.
func cutOff(text []byte, err error) bool {
	wrong, ok := errors.AsType[*json.SyntaxError](err)
	return ok && wrong.Offset >= int64(len(text)) && strings.HasPrefix(wrong.Error(), "unexpected end")
}

// shorten keeps a text from the file at a length that a message can bear.
func shorten(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
