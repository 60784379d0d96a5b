package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/reservations"
)

// traced are the fields of a line.
type traced struct {
	At       json.RawMessage    `json:"at"`
	Limit    string             `json:"limit"`
	Limits   []string           `json:"limits"`
	Tokens   *float64           `json:"tokens"`
	Charge   map[string]float64 `json:"charge"`
	Used     json.RawMessage    `json:"used"`
	Latency  json.RawMessage    `json:"latency"`
	Flow     *string            `json:"flow"`
	Priority *string            `json:"priority"`
	Urgent   *bool              `json:"urgent"`
}

// fieldNames are the fields of a line.
func fieldNames() []string {
	return []string{"at", "charge", "flow", "latency", "limit", "limits", "priority", "tokens", "urgent", "used"}
}

// add reads a line.
func (t *tracer) add(number int, text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not valid UTF-8")
	}
	if len(t.calls) >= CallsMost {
		return fmt.Errorf("more than %d calls", CallsMost)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return errors.New("not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(fieldNames(), name) {
			return fieldFault(shorten(name), "there is no such field%s", nearest.Hint(name, fieldNames()))
		}
	}
	var l traced
	if err := json.Unmarshal(text, &l); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fieldFault(wrong.Field, "a %s must be a %s", wrong.Value, wrong.Type.Kind())
		}
		return errors.New("not valid JSON")
	}
	c, err := t.call(l)
	if err != nil {
		return err
	}
	at, moment, err := readAt(l.At)
	switch {
	case err != nil:
		return err
	case !moment.IsZero() && t.seconds > 0 || moment.IsZero() && len(t.moments) > 0:
		return fieldFault("at", "%s: all lines must have moments, or all seconds", shorten(string(l.At)))
	case moment.IsZero():
		t.seconds++
	default:
		t.moments = append(t.moments, moment)
	}
	c.At, c.Line = at, number
	t.calls = append(t.calls, c)
	return nil
}

// call makes the call of a line: what it leaves out is drawn from the pattern.
func (t *tracer) call(l traced) (Call, error) {
	p, limits := t.pattern, t.limits
	if l.Limit != "" {
		if len(l.Limits) > 0 {
			return Call{}, fieldFault("limit", "%q beside limits: leave one out", shorten(l.Limit))
		}
		l.Limits = []string{l.Limit}
	}
	if len(l.Limits) > bucketsMost {
		return Call{}, fieldFault("limits", "%d limits: at most %d", len(l.Limits), bucketsMost)
	}
	if len(l.Limits) > 0 {
		p.Buckets, limits = nil, nil
		for _, text := range l.Limits {
			name, key, keyed := strings.Cut(text, ":")
			if keyed && key == "" {
				return Call{}, fieldFault("limits", "%q: a key must follow the colon", shorten(text))
			}
			limit, err := limitNamed(t.all, name)
			if err != nil {
				return Call{}, err
			}
			limits, p.Buckets = append(limits, limit), append(p.Buckets, reservations.Charge{Limit: name, Key: key})
		}
	}
	if len(p.Buckets) == 0 {
		return Call{}, fieldFault("limit", "missing: name a limit")
	}
	of := priced{tokens: p.Tokens.value(t.pricing), flow: t.flow()}
	if l.Tokens != nil {
		of.tokens, p.Tokens = *l.Tokens, Range{Least: *l.Tokens, Most: max(1, *l.Tokens)}
	}
	if l.Charge != nil {
		p.Charge = l.Charge
	}
	if l.Flow != nil {
		of.flow = *l.Flow
	}
	if l.Priority != nil {
		p.Priority = *l.Priority
	}
	if l.Urgent != nil {
		p.Urgent = *l.Urgent
	}
	charges, err := t.price(of, limits, p)
	if err != nil {
		return Call{}, err
	}
	c := Call{Charges: charges}
	if c.Used, err = t.readUsed(l.Used, of.tokens); err != nil {
		return Call{}, err
	}
	c.Latency, err = t.readLatency(l.Latency)
	return c, err
}

// absent says whether a field is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// readAt reads a moment, or seconds since the start.
func readAt(raw json.RawMessage) (at time.Duration, moment time.Time, err error) {
	if absent(raw) {
		return 0, time.Time{}, fieldFault("at", "missing: must be a moment or seconds since the start")
	}
	var n float64
	var text string
	switch {
	case json.Unmarshal(raw, &n) == nil:
		if !(n >= 0 && n <= UntilDefault.Seconds()) {
			return 0, moment, fieldFault("at", "%v seconds must be from 0 to %v", n, UntilDefault.Seconds())
		}
		return seconds(n), moment, nil
	case json.Unmarshal(raw, &text) == nil:
		moment, err = time.Parse(time.RFC3339, text)
		if err == nil && moment.Year() >= 1970 && moment.Year() < 2200 {
			return 0, moment, nil
		}
	}
	return 0, time.Time{}, fieldFault("at", "%s must be a moment such as 2026-01-05T08:00:00Z, or seconds since the start",
		shorten(string(raw)))
}

// readUsed reads what a call used.
func (t *tracer) readUsed(raw json.RawMessage, estimate float64) (reservations.Tokens, error) {
	if absent(raw) {
		return t.uses(estimate), nil
	}
	var n float64
	var by reservations.Tokens
	if json.Unmarshal(raw, &n) == nil {
		return reservations.Tokens{meterTokens: n, meterTokensPerDay: n}, nil
	}
	if json.Unmarshal(raw, &by) == nil {
		return by, nil
	}
	return nil, fieldFault("used", "%s must be a number of tokens, or an object of meters", shorten(string(raw)))
}

// readLatency reads how long a call took.
func (t *tracer) readLatency(raw json.RawMessage) (time.Duration, error) {
	if absent(raw) {
		return seconds(t.pattern.Latency.value(t.responding)), nil
	}
	var n float64
	var text string
	if json.Unmarshal(raw, &n) == nil && n >= 0 && n <= UntilDefault.Seconds() {
		return seconds(n), nil
	}
	if json.Unmarshal(raw, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 && d <= UntilDefault {
			return d, nil
		}
	}
	return 0, fieldFault("latency", `%s must be seconds, or a text such as "2.5s", from 0 to %v`, shorten(string(raw)),
		UntilDefault)
}

// shorten cuts a text from a trace for a message.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
