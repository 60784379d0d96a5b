package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/text/filekind"
)

// answer is the part of an answer that says whether it is good. What a model wrote is not copied.
type answer struct {
	Error     part    `json:"error"`
	BaseResp  part    `json:"base_resp"`
	ErrorCode part    `json:"error_code"`
	ErrorMsg  part    `json:"error_msg"`
	Status    part    `json:"status"`
	Choices   choices `json:"choices"`

	Data       shape `json:"data"`
	Output     shape `json:"output"`
	Results    shape `json:"results"`
	Embeddings shape `json:"embeddings"`
	Vectors    shape `json:"vectors"`
	Content    shape `json:"content"`
	Candidates shape `json:"candidates"`
}

// eventLine begins a stream of events: with a field, or with a comment that keeps the connection alive.
var eventLine = regexp.MustCompile(`^(data|event|id|retry|):`)

// parse reads a body. Form is what came if that is no JSON object, and detail says more of it.
func (a *answer) parse(r Reply) (form, detail string) {
	text := bytes.TrimSpace(r.Body)
	kind, packed := filekind.Of(text), packing(r.Header)
	switch {
	case packed != "":
		return "the answer is packed, which was not asked for", fmt.Sprintf("%.40q", packed)
	case len(text) == 0:
		return "the answer is empty", ""
	case kind.Name != "":
		return "the answer is " + kind.Name, ""
	case eventLine.Match(text):
		return "the answer is a stream of events, which was not asked for", beginning(text)
	case text[0] != '{':
		return fmt.Sprintf("the answer, of type %.100q, is not a JSON object", r.Header.Get("Content-Type")),
			beginning(text)
	}
	if err := json.Unmarshal(text, a); err != nil {
		form = "the answer is not valid JSON"
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok && wrong.Offset >= int64(len(text)) {
			return "the answer ends in the middle of its JSON", fmt.Sprintf("after %d bytes", len(text))
		} else if ok {
			return form, fmt.Sprintf("%v, at byte %d: %s", err, wrong.Offset, around(text, int(wrong.Offset)))
		}
		return form, err.Error()
	}
	return "", ""
}

// excerptBytes is how much of an answer that can't be used is shown.
const excerptBytes = 80

// beginning is the first bytes of an answer, quoted.
func beginning(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) > excerptBytes {
		return fmt.Sprintf("it begins with %q", text[:excerptBytes])
	}
	return fmt.Sprintf("%q", text)
}

// around is what stands before and after a position in a text, quoted.
func around(text []byte, at int) string {
	return fmt.Sprintf("%q", text[max(0, at-excerptBytes/2):min(len(text), at+excerptBytes/4)])
}

// failure is the error in an answer with a good status; false without one.
func (a *answer) failure(r Reply, now time.Time) (v Verdict, failed bool) {
	fail := func(said Said, otherwise string, kind httpcall.Kind) (Verdict, bool) {
		kind = cmp.Or(said.kind(), kind, httpcall.Failed)
		said.Message = cmp.Or(said.Message, otherwise)
		return Verdict{Said: said, Kind: kind}, true
	}
	for i, wrapped := range []map[string]any{
		{"error": a.Error.value()},
		{"base_resp": a.BaseResp.value()},
		{"error_code": a.ErrorCode.value(), "error_msg": a.ErrorMsg.value()},
	} {
		if faulty(wrapped) && (i > 0 || !a.Choices.ended) { // an error beside choices that ended well is a remark
			if _, whole := wrapped["error"].(map[string]any); i == 0 && !whole && len(r.Body) <= errorBytes {
				body, _ := decoded(r.Body) // of a flag or a code, the words stand beside it
				return fail(read(body, now), "the answer has an error", "")
			}
			return fail(read(wrapped, now), "the answer has an error", "")
		}
	}
	if status, _ := a.Status.value().(string); r.Endpoint == Responses {
		switch status {
		case "failed", "cancelled", "canceled":
			return fail(Said{}, "the response has the status "+status, "")
		case "queued", "in_progress":
			return unusable("the response has not ended", status), true
		}
	}
	if c := a.Choices; c.failed {
		otherwise := fmt.Sprintf("a choice has the finish_reason %.40q", c.reason)
		return fail(read(c.fault.value(), now), otherwise, ended(c.reason))
	}
	return v, false
}

// faulty says whether the value of a field that errors have is an error: it is neither empty nor a success.
func faulty(value any) bool {
	switch v := value.(type) {
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "", "0", "ok", "success", "none", "null":
			return false
		}
		return true
	case json.Number:
		n, err := v.Float64()
		return err != nil || n != 0
	case bool:
		return v
	case []any:
		return len(v) > 0
	case map[string]any:
		for name, one := range v {
			switch strings.ToLower(name) {
			case "message", "msg", "status_msg", "error_msg", "code", "status_code":
				if n, ok := one.(json.Number); ok && n.String() == "200" {
					continue
				}
			}
			if faulty(one) {
				return true
			}
		}
	}
	return false
}

// content names the field in which the endpoint answers, and says what it holds. If it is not there, the list of
// another protocol may be in its place.
func (a *answer) content(endpoint string) (name string, content shape) {
	switch endpoint {
	case Embeddings:
		name, content = "data", a.Data
	case Moderations:
		name, content = "results", a.Results
	case Responses:
		name, content = "output", a.Output
		if status, _ := a.Status.value().(string); content == empty && (status == "completed" || status == "incomplete") {
			content = full // all tokens went into reasoning
		}
	default:
		name, content = "choices", a.Choices.shape
	}
	if content != absent {
		return name, content
	}
	for _, other := range []shape{
		a.Choices.shape, a.Data, a.Output, a.Results, a.Embeddings, a.Vectors, a.Content, a.Candidates,
	} {
		content = max(content, other)
	}
	if content != full {
		content = absent
	}
	return name, content
}

// shape is what a field holds, which is not kept.
type shape int

const (
	absent shape = iota
	empty        // null, or without anything in it
	full         // a list or an object with something in it
)

// UnmarshalJSON implements json.Unmarshaler.
func (s *shape) UnmarshalJSON(text []byte) error {
	*s = empty
	if (text[0] == '[' || text[0] == '{') && len(bytes.TrimSpace(text[1:len(text)-1])) > 0 {
		*s = full
	}
	return nil
}

// partBytes bounds what is kept of a field that may be an error.
const partBytes = 64 << 10

// part is the beginning of a field.
type part string

// UnmarshalJSON implements json.Unmarshaler.
func (p *part) UnmarshalJSON(text []byte) error {
	*p = part(text[:min(len(text), partBytes)])
	return nil
}

// value is the decoded field, or its text if only a part of it is kept; nil without one.
func (p part) value() any {
	if p == "" {
		return nil
	}
	if v, ok := decoded([]byte(p)); ok {
		return v
	}
	return string(p)
}

// choices are the choices of a chat or of a completion.
type choices struct {
	shape

	ended  bool // each choice has a finish_reason that is no error
	failed bool
	reason string // the finish_reason that is an error
	fault  part   // the error of a choice
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *choices) UnmarshalJSON(text []byte) error {
	*c = choices{shape: empty}
	var list []choice
	_ = json.Unmarshal(text, &list) // anything but a list has no choice
	c.ended = len(list) > 0
	for _, one := range list {
		if one.some {
			c.shape = full
		}
		reason, _ := one.FinishReason.value().(string)
		if object, ok := one.FinishReason.value().(map[string]any); ok { // with its type, as SGLang has it
			reason, _ = object["type"].(string)
			one.Error = cmp.Or(one.Error, one.FinishReason)
		}
		if ended(reason) != "" || reason == "" && faulty(one.Error.value()) {
			c.ended, c.failed, c.reason, c.fault = false, true, reason, one.Error
			return nil
		}
		c.ended = c.ended && reason != ""
	}
	return nil
}

// choice is what matters of a choice.
type choice struct {
	FinishReason, Error part

	some bool
}

// UnmarshalJSON implements json.Unmarshaler. Anything but an object is an empty choice.
func (c *choice) UnmarshalJSON(text []byte) error {
	var fields struct {
		FinishReason part `json:"finish_reason"`
		Error        part `json:"error"`
	}
	var whole shape
	_ = whole.UnmarshalJSON(text)
	if text[0] == '{' && json.Unmarshal(text, &fields) == nil {
		*c = choice{FinishReason: fields.FinishReason, Error: fields.Error, some: whole == full}
	}
	return nil
}
