package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
)

const (
	// readBytes is how much of an answer is read at once.
	readBytes = 16 << 10
	// lineMost is the longest line of a stream that is parsed. A longer one is passed on as it is.
	lineMost = 8 << 20
	// usageMost bounds the usage in an answer.
	usageMost = 64 << 10
)

// meter is what an answer says that it used, and how much of it has come.
type meter struct {
	used     estimates.Tokens
	known    bool
	streamed bool
	complete bool // the usage is that of the whole stream
	chunks   int  // with content
	text     int  // bytes of content
}

// events passes on a stream of events, and reads their usage.
type events struct {
	body    io.ReadCloser
	meter   *meter
	call    *call
	in, out []byte // in: the beginning of a line; out: what is to be passed on
	skip    bool   // the blank line behind a hidden event
	long    bool   // within a line that is too long
	err     error
}

func newEvents(body io.ReadCloser, m *meter, c *call) *events {
	m.streamed = true
	return &events{body: body, meter: m, call: c}
}

// Read implements io.Reader. A stream that breaks off ends with an event that is an error.
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 && e.err == nil {
		e.out = e.out[:0]
		e.in = slices.Grow(e.in, readBytes)
		n, err := e.body.Read(e.in[len(e.in) : len(e.in)+readBytes])
		e.in = e.in[:len(e.in)+n]
		e.lines()
		if err == nil {
			continue
		}
		e.err = io.EOF
		e.out = append(e.out, e.in...)
		e.in = nil
		if !errors.Is(err, io.EOF) {
			f := fault{status: 502, code: "provider_failed", message: "The provider broke off its answer."}
			e.out = append(append(e.out, "\n\n"...), errorEvent(e.call.family, f.body(e.call.family))...)
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	if n == 0 && len(p) > 0 {
		return 0, e.err
	}
	return n, nil
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }

// lines passes on the whole lines that have come.
func (e *events) lines() {
	rest := e.in
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		line := rest[:end+1]
		rest = rest[end+1:]
		if e.long || e.line(line) {
			e.out = append(e.out, line...)
		}
		e.long = false
	}
	if len(rest) > lineMost {
		e.out, e.long = append(e.out, rest...), true
		e.meter.chunks++
		rest = nil
	}
	e.in = e.in[:copy(e.in, rest)]
	if len(e.in) == 0 && cap(e.in) > 4*readBytes {
		e.in = nil
	}
}

// line reads one line, and says whether it is passed on as it is.
func (e *events) line(line []byte) (pass bool) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		blank := len(bytes.TrimSpace(line)) == 0
		skipped := e.skip && blank
		e.skip = e.skip && !blank
		return !skipped
	}
	e.skip = false
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		return true
	}
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		e.meter.text += len(data)
		return true
	}
	e.count(c)
	if !e.call.usage {
		return true
	}
	if c.Usage != nil && len(c.Choices) == 0 && c.Error == nil {
		e.skip = true
		return false
	}
	if at := noUsage.FindIndex(line); at != nil {
		e.out = append(append(e.out, line[:at[0]]...), line[at[1]:]...)
		return false
	}
	return true
}

// noUsage is in each event of a stream that ends with the usage. Within a text its quotes would be escaped.
var noUsage = regexp.MustCompile(`,\s*"usage"\s*:\s*null`)

// chunk is what the events of all endpoints may have.
type chunk struct {
	Type    string          `json:"type"`
	Delta   json.RawMessage `json:"delta"` // of a response or a message
	Choices []struct {
		Text  string          `json:"text"`
		Delta json.RawMessage `json:"delta"`
	} `json:"choices"`
	Usage    *openai.Usage                  `json:"usage"`
	Response *struct{ Usage *openai.Usage } `json:"response"`
	Message  *struct{ Usage *openai.Usage } `json:"message"`
	Error    *json.RawMessage               `json:"error"`
}

// count adds what an event has.
func (e *events) count(c chunk) {
	m, text := e.meter, textOf(c.Delta)
	for _, choice := range c.Choices {
		text += len(choice.Text) + textOf(choice.Delta)
	}
	if text > 0 {
		m.chunks, m.text = m.chunks+1, m.text+text
	}
	switch {
	case c.Message != nil && c.Message.Usage != nil: // the beginning of a message
		if used, ok := c.Message.Usage.Tokens(); ok {
			m.used, m.known = used, true
		}
	case c.Type == "message_delta" && c.Usage != nil: // its end; it may name the output alone
		used, _ := c.Usage.Tokens()
		m.used.Input, m.used.Output = max(m.used.Input, used.Input), used.Output
		m.known, m.complete = true, true
	default:
		usage := c.Usage
		if usage == nil && c.Response != nil {
			usage = c.Response.Usage
		}
		if usage == nil {
			return
		}
		if used, ok := usage.Tokens(); ok {
			m.used, m.known = used, true
			m.complete = true
		}
	}
}

// textOf is how many bytes of text a delta has.
func textOf(delta json.RawMessage) int {
	if len(delta) == 0 || string(delta) == "{}" || string(delta) == "null" {
		return 0
	}
	var value any
	if json.Unmarshal(delta, &value) != nil {
		return 0
	}
	return textIn(value)
}

func textIn(value any) (n int) {
	switch v := value.(type) {
	case string:
		return len(v)
	case []any:
		for _, one := range v {
			n += textIn(one)
		}
	case map[string]any:
		for name, one := range v {
			if name != "role" && name != "type" && name != "id" {
				n += textIn(one)
			}
		}
	}
	return n
}

// jsonBody passes on an answer that is one JSON object, and reads the usage in it. It holds no part of the answer but
// that.
type jsonBody struct {
	body  io.ReadCloser
	meter *meter

	depth           int
	inside, escaped bool   // a text, and the character behind a backslash
	name, value     []byte // the last text at depth 1; the value of the usage
	taking          bool
	isName          bool // the next text at depth 1 is a name
}

// Read implements io.Reader.
func (j *jsonBody) Read(p []byte) (int, error) {
	n, err := j.body.Read(p)
	for _, c := range p[:n] {
		j.scan(c)
	}
	return n, err
}

// Close implements io.Closer.
func (j *jsonBody) Close() error { return j.body.Close() }

// scan reads one byte.
func (j *jsonBody) scan(c byte) {
	if j.taking && len(j.value) < usageMost {
		j.value = append(j.value, c)
	}
	if j.inside {
		switch {
		case j.escaped:
			j.escaped = false
		case c == '\\':
			j.escaped = true
		case c == '"':
			j.inside = false
			return
		}
		if j.depth == 1 && j.isName && len(j.name) < len("usage")+1 {
			j.name = append(j.name, c)
		}
		return
	}
	switch c {
	case '"':
		j.inside = true
		if j.depth == 1 && j.isName {
			j.name = j.name[:0]
		}
	case '{', '[':
		j.depth++
		j.isName = j.depth == 1
	case '}', ']':
		j.depth--
		if j.depth == 0 || j.depth == 1 && j.taking {
			j.take()
		}
	case ':':
		if j.depth == 1 && j.isName {
			j.isName = false
			if string(j.name) == "usage" {
				j.taking, j.value = true, nil
			}
		}
	case ',':
		if j.depth == 1 {
			j.take()
			j.isName = true
		}
	}
}

// take reads the usage, which has come whole.
func (j *jsonBody) take() {
	if !j.taking {
		return
	}
	j.taking = false
	var usage openai.Usage
	if json.Unmarshal(bytes.TrimRight(j.value, ", \t\r\n"), &usage) != nil {
		return
	}
	if used, ok := usage.Tokens(); ok {
		j.meter.used, j.meter.known = used, true
	}
}
