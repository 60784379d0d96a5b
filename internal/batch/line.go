package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headway-go/headway/tasks/llm"
)

// MaxName is the longest custom_id and model, in bytes: they are stored beside each answer, and databases bound
// documents.
const MaxName = 4096

// Line is a request of a batch file.
type Line struct {
	Number   int             // of the line in the file, from 1; blank lines count
	CustomID string          // unique in the file
	Method   string          // POST; any method where URL is absolute
	URL      string          // one of llm.Endpoints, or an absolute http or https URL
	Body     json.RawMessage // as it stands in the file: a JSON object; any JSON or nothing where URL is absolute

	// Headers and Charge are for absolute URLs only, and may be absent: headers to send, and tokens to take of each
	// meter.
	Headers map[string]string
	Charge  map[string]float64
}

// HTTP says whether the line is an HTTP request of its own, not a call of OpenAI's API.
func (l Line) HTTP() bool { return absolute(l.URL) }

// absolute goes by the scheme, in any case of letters.
func absolute(url string) bool {
	scheme, _, ok := strings.Cut(url, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
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
	if err := checkName(line.CustomID, fields["custom_id"]); err != nil {
		return fault("custom_id", err)
	}
	if line.HTTP() {
		if field, err := readHTTP(&line, fields); err != nil {
			return fault(field, err)
		}
		return line, nil
	}
	// Before the method: a mistyped absolute URL is not at fault for its method, of which it may have any.
	if known := llm.Endpoints(); !slices.Contains(known, llm.Endpoint(line.URL)) {
		return fault("url", fmt.Errorf("%w %q, supported: %s, or an absolute http or https URL",
			ErrUnknownURL, shorten(line.URL), strings.ReplaceAll(strings.Trim(fmt.Sprint(known), "[]"), " ", ", ")))
	}
	if line.Method != http.MethodPost {
		return fault("method", fmt.Errorf("%w %q, supported: POST", ErrMethod, shorten(line.Method)))
	}
	if field, err := checkBody(llm.Endpoint(line.URL), fields["body"]); err != nil {
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

// checkName says why a name can't be kept as it is; raw is how it stands in the file.
func checkName(name string, raw json.RawMessage) error {
	if len(name) > MaxName {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(name), MaxName)
	}
	// Half of a surrogate pair becomes a replacement character, and names that differ would be the same.
	const replacement = "\ufffd"
	if !strings.Contains(name, replacement) {
		return nil
	}
	meant := bytes.Count(raw, []byte(replacement)) + bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
	if meant < strings.Count(name, replacement) {
		return fmt.Errorf("%w: half of a surrogate pair", ErrUTF8)
	}
	return nil
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

// cutOff says whether a text ends too early, and is not wrong before its end.
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
