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

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
)

// bodyPatience is how long a caller may take to send a body, for each 8 MB of it, and at least.
const bodyPatience = 30 * time.Second

// restPatience is how long the server reads the rest of a body that was not read, so that the caller gets the answer.
const restPatience = time.Second

// call is one live call.
type call struct {
	route
	share // of the memory, which its body takes

	body     []byte
	model    string
	stream   bool
	usage    bool // a stream of which the caller did not ask for the usage: it is added, and hidden again
	estimate openai.Estimate
}

// holds says whether the response may open before the answer is there: not where the answer is no JSON.
func (c *call) holds() bool { return !strings.HasPrefix(c.endpoint, "/v1/audio/") }

// read reads the body of a request, and estimates it. The share of the call is always to be released.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, to route) (c *call, problem *fault) {
	c = &call{route: to, share: share{of: g.memory}}
	var err error
	if c.body, err = c.readBody(w, r, g.config.MaxBody); err != nil {
		return c, g.unread(r, err)
	}
	if to.endpoint == transcriptions || to.endpoint == translations {
		problem = c.readForm(r.Header.Get("Content-Type"))
	} else {
		problem = c.readJSON()
	}
	c.keep(int64(len(c.body)))
	return c, problem
}

// unread is the answer to a call whose body was not read.
func (g *Gateway) unread(r *http.Request, err error) *fault {
	f := &fault{
		status: http.StatusRequestTimeout, message: "The body did not arrive, or is not complete.",
		header: http.Header{"Connection": {"close"}},
	}
	switch {
	case errors.Is(err, errTooLarge):
		f.status, f.code = http.StatusRequestEntityTooLarge, "request_too_large"
		f.message = fmt.Sprintf("The body is above the %d bytes that this gateway takes (--max-body).", g.config.MaxBody)
	case errors.Is(err, errFull):
		f.status, f.code, f.retry = http.StatusServiceUnavailable, "gateway_full", againMin
		f.message = "The bodies of other calls take all memory of this gateway: try again, or start more gateways."
	case r.Context().Err() != nil && !errors.Is(context.Cause(r.Context()), context.Canceled): // as by a lost connection
		f.message = context.Cause(r.Context()).Error()
	}
	return f
}

// readJSON reads a body that is an object. A field that is there twice is refused: the provider might read the other
// one.
func (c *call) readJSON() *fault {
	fields, err := openai.Fields(c.body)
	if err != nil {
		return &fault{status: http.StatusBadRequest, message: fmt.Sprintf("The body %v.", err)}
	}
	if model := fields["model"].Raw; len(model) > 0 && json.Unmarshal(model, &c.model) != nil {
		return &fault{status: http.StatusBadRequest, param: "model", message: "The model must be a text."}
	}
	if c.model == "" {
		c.model = c.deployment
	}
	c.stream = string(fields["stream"].Raw) == "true"
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

// withUsage asks for the usage of a stream. Everything else stays as it is. Added says that the caller had not.
func withUsage(body []byte, options openai.Field) (with []byte, added bool, err error) {
	const asked = `{"include_usage":true}`
	if options.End == 0 {
		open := bytes.IndexByte(body, '{') + 1
		return concat(body[:open], []byte(`"stream_options":`+asked+`,`), body[open:]), true, nil
	}
	value := []byte(asked)
	if string(options.Raw) != "null" {
		inner, err := openai.Fields(options.Raw)
		if err != nil {
			return nil, false, fmt.Errorf("stream_options %w", err)
		}
		switch now := inner["include_usage"]; {
		case string(now.Raw) == "true":
			return body, false, nil
		case now.End > 0:
			value = concat(options.Raw[:now.Start], []byte("true"), options.Raw[now.End:])
		case len(inner) > 0:
			value = concat([]byte(`{"include_usage":true,`), bytes.TrimSpace(options.Raw)[1:])
		}
	}
	return concat(body[:options.Start], value, body[options.End:]), true, nil
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
