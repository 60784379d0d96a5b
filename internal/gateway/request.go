package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/estimates"
	"github.com/headway-go/headway/internal/intake"
	"github.com/headway-go/headway/internal/openai"
	"github.com/headway-go/headway/reservations"
)

// bodyPatience is how long a caller may take to send a body, for each 8 MB that it may have, and at least.
const bodyPatience = 30 * time.Second

// restPatience is how long the rest of a body is awaited that is refused.
const restPatience = time.Second

// call is one live call.
type call struct {
	route

	body     []byte
	model    string
	stream   bool
	usage    bool // a stream of which the caller did not ask for the usage: it is added, and hidden again
	estimate openai.Estimate
	release  func() // of the memory that the body takes
}

// holds says whether the response may open before the answer is there: not where the answer is no JSON.
func (c *call) holds() bool { return !strings.HasPrefix(c.endpoint, "/v1/audio/") }

// read reads the body of a request, and estimates it. Release is always to be called.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, to route) (c *call, problem *fault) {
	c = &call{route: to, release: func() {}}
	control := http.NewResponseController(w)
	// Errors of deadlines: a recorder in a test has none.
	_ = control.SetReadDeadline(time.Now().Add(bodyPatience * time.Duration(1+g.config.MaxBody>>23)))
	var err error
	if r.ContentLength > g.config.MaxBody {
		_ = control.SetReadDeadline(time.Now().Add(restPatience))
		return c, g.tooLarge()
	}
	c.body, c.release, err = g.memory.Read(r.Context(), r.Body, g.config.MaxBody)
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
	} else { // the server reads on a little, so that the caller gets the error
		_ = control.SetReadDeadline(time.Now().Add(restPatience))
	}
	switch {
	case errors.Is(err, intake.ErrTooLarge):
		return c, g.tooLarge()
	case err != nil && r.Context().Err() == nil:
		return c, &fault{
			status: http.StatusRequestTimeout, message: "The body did not arrive, or is not complete.",
			header: http.Header{"Connection": {"close"}},
		}
	case err != nil:
		return c, &fault{status: http.StatusRequestTimeout, message: context.Cause(r.Context()).Error()}
	}
	if to.endpoint == transcriptions || to.endpoint == translations {
		return c, c.readForm(r.Header.Get("Content-Type"))
	}
	return c, c.readJSON()
}

func (g *Gateway) tooLarge() *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, code: "request_too_large", header: http.Header{
		"Connection": {"close"},
	}, message: fmt.Sprintf("The body is above the %d bytes that this gateway takes (--max-body).", g.config.MaxBody)}
}

// readJSON reads a body that is an object. A field that is there twice is refused: the provider might read the other
// one.
func (c *call) readJSON() *fault {
	fields, err := fieldsOf(c.body)
	if err != nil {
		return &fault{status: http.StatusBadRequest, message: fmt.Sprintf("The body %v.", err)}
	}
	_ = json.Unmarshal(fields["model"].raw, &c.model) // the provider's to judge
	if c.model == "" {
		c.model = c.deployment
	}
	c.stream = string(fields["stream"].raw) == "true"
	if c.estimate, err = openai.AssessLive(c.endpoint, c.body); err != nil {
		f := &fault{status: http.StatusBadRequest, message: err.Error()}
		if field, ok := errors.AsType[*reservations.FieldError](err); ok {
			f.param = field.Field
		}
		return f
	}
	c.estimate.Model = c.model
	if c.stream && (c.endpoint == openai.Chat || c.endpoint == openai.Completions) {
		c.body, c.usage, err = withUsage(c.body, fields["stream_options"])
		if err != nil {
			return &fault{status: http.StatusBadRequest, param: "stream_options", message: err.Error()}
		}
	}
	return nil
}

// field is the value of a field, and where it is in the body.
type field struct {
	raw        json.RawMessage
	start, end int
}

// fieldsOf returns the fields of an object. The error continues a sentence.
func fieldsOf(body []byte) (map[string]field, error) {
	fields := map[string]field{}
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errors.New("is not valid JSON")
		}
		text, ok := name.(string)
		if _, twice := fields[text]; twice || !ok {
			return nil, fmt.Errorf("has the field %.60q twice", text)
		}
		var f field
		if err := d.Decode(&f.raw); err != nil {
			return nil, errors.New("is not valid JSON")
		}
		f.end = int(d.InputOffset())
		f.start = f.end - len(f.raw)
		fields[text] = f
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("is not valid JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something behind its JSON object")
	}
	return fields, nil
}

// withUsage asks for the usage of a stream. Everything else stays as it is. Added says that the caller had not.
func withUsage(body []byte, options field) (with []byte, added bool, err error) {
	const asked = `{"include_usage":true}`
	if options.end == 0 {
		open := bytes.IndexByte(body, '{') + 1
		return concat(body[:open], []byte(`"stream_options":`+asked+`,`), body[open:]), true, nil
	}
	value := []byte(asked)
	if string(options.raw) != "null" {
		inner, err := fieldsOf(options.raw)
		if err != nil {
			return nil, false, fmt.Errorf("stream_options %w", err)
		}
		switch now := inner["include_usage"]; {
		case string(now.raw) == "true":
			return body, false, nil
		case now.end > 0:
			value = concat(options.raw[:now.start], []byte("true"), options.raw[now.end:])
		case len(inner) > 0:
			value = concat([]byte(`{"include_usage":true,`), bytes.TrimSpace(options.raw)[1:])
		}
	}
	return concat(body[:options.start], value, body[options.end:]), true, nil
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// formField is how long the model in a form may be.
const formField = 1 << 10

// readForm reads a form with a file of sound. A model that counts tokens takes about one for 1600 bytes of sound.
func (c *call) readForm(contentType string) *fault {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return &fault{status: http.StatusBadRequest, message: "The body is not multipart/form-data with a boundary."}
	}
	form := multipart.NewReader(bytes.NewReader(c.body), params["boundary"])
	var sound int64
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &fault{status: http.StatusBadRequest, message: "The form can't be read: it is not complete."}
		}
		switch part.FormName() {
		case "model":
			text, _ := io.ReadAll(io.LimitReader(part, formField))
			if c.model != "" && c.model != string(text) {
				return &fault{status: http.StatusBadRequest, param: "model", message: "The form has several models."}
			}
			c.model = string(text)
		case "stream":
			text, _ := io.ReadAll(io.LimitReader(part, formField))
			c.stream = string(text) == "true"
		case "file":
			sound, _ = io.Copy(io.Discard, part)
		}
	}
	const bytesPerToken = 1600
	if c.model == "" {
		c.model = c.deployment
	}
	if !strings.HasPrefix(c.model, "whisper") {
		c.estimate.Tokens = estimates.Tokens{Input: float64(sound / bytesPerToken)}
	}
	c.estimate.Model = c.model
	return nil
}
