package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/text/filekind"
)

// MaxName is the longest custom_id and model, in bytes. They are stored with each answer, and databases bound
// documents.
const MaxName = 4096

// Line is a request of a batch file.
type Line struct {
	Number   int    `json:"-"`         // the number of the line, from 1; blank lines count
	CustomID string `json:"custom_id"` // unique in the file
	Method   string `json:"method"`    // POST; any method if URL is absolute
	URL      string `json:"url"`       // one of openai.Endpoints, after openai.Canonical, or an absolute http or https URL

	// Headers and Charge are for absolute URLs only, and may be absent: headers to send, and the tokens of each
	// meter.
	Headers map[string]string `json:"headers,omitempty"`

	// Body is unchanged: a JSON object; if URL is absolute, any JSON or nothing.
	Body   json.RawMessage    `json:"body,omitempty"`
	Charge map[string]float64 `json:"charge,omitempty"`
}

// JSON returns the request in the input format, on one line. It returns nil if the body is not JSON.
func (l Line) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(l) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// HTTP returns whether the line is an HTTP request of its own, not a call of OpenAI's API.
func (l Line) HTTP() bool { return absolute(l.URL) }

// absolute returns whether the URL has a scheme, in any letter case.
func absolute(url string) bool {
	scheme, _, ok := strings.Cut(url, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Parse reads one line without its line break. last is true if the file ends with this line and without a line break.
// The error is a [*LineError].
func Parse(number int, text []byte, last bool) (Line, error) {
	fault := func(field string, err error) (Line, error) {
		return Line{}, &LineError{Line: number, Field: field, Err: err}
	}
	// A map, because a struct would accept field names in any letter case.
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	switch {
	case last && cutOff(text, err):
		return fault("", ErrTruncated) // Before the check of UTF-8, because the line may end inside of a character.
	case !utf8.Valid(text):
		return fault("", fmt.Errorf("%w at byte %d", ErrUTF8, filekind.Invalid(text)+1))
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
	// Before the method, because any method is valid for an absolute URL, which may be misspelt.
	deployment, url := openai.Deployment(line.URL)
	line.URL = openai.Canonical(url)
	if known := openai.Endpoints(); !slices.Contains(known, line.URL) {
		return fault("url", fmt.Errorf("%w %q, supported: %s, or an absolute http or https URL",
			ErrUnknownURL, shorten(line.URL), strings.ReplaceAll(strings.Trim(fmt.Sprint(known), "[]"), " ", ", ")))
	}
	if line.Method != http.MethodPost {
		return fault("method", fmt.Errorf("%w %q, supported: POST", ErrMethod, shorten(line.Method)))
	}
	if field, err := checkBody(line.URL, fields["body"]); err != nil {
		return fault(field, err)
	}
	if model := modelOf(fields["body"]); deployment != "" && model != deployment {
		line.URL = ""
		return fault("url", fmt.Errorf("%w: it names deployment %q, and the body model %q: name the deployment as the "+
			"model, and give the provider a base_url that ends with /openai/v1",
			ErrUnknownURL, shorten(deployment), shorten(model)))
	}
	line.Body = fields["body"]
	return line, nil
}

// modelOf is the model that a body names; empty if it names none.
func modelOf(body json.RawMessage) string {
	var named struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &named) // the body was checked
	return named.Model
}

// nonEmpty reads a field that must be a text that is not empty.
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

// checkName returns an error if a name can't be stored unchanged. raw is its JSON in the file.
func checkName(name string, raw json.RawMessage) error {
	if len(name) > MaxName {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(name), MaxName)
	}
	// Half of a surrogate pair becomes a replacement character, so different names would become equal.
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

// kindOf names the JSON type that a Go type needs.
func kindOf(wrong *json.UnmarshalTypeError) string {
	if wrong.Type.Kind() == reflect.Map {
		return "object"
	}
	return wrong.Type.Kind().String()
}

// cutOff returns whether a text is valid up to its end, but incomplete.
func cutOff(text []byte, err error) bool {
	wrong, ok := errors.AsType[*json.SyntaxError](err)
	return ok && wrong.Offset >= int64(len(text)) && strings.HasPrefix(wrong.Error(), "unexpected end")
}

// shorten cuts a text from the file for a message.
func shorten(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}

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
