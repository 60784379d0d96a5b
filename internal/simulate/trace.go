package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/nearest"
	"github.com/headway-go/headway/reservations"
)

const (
	// lineMost is the longest line of a trace, in bytes.
	lineMost = 1 << 20
	// faultsMost is how many faulty lines are named.
	faultsMost = 20
	// bucketsMost is how many limits one line may name.
	bucketsMost = 16
)

// TraceError is a fault of one line.
type TraceError struct {
	Line  int    // from 1; blank lines count
	Field string // empty for the whole line
	Err   error
}

func (e *TraceError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.Line, e.Field, e.Err)
}

// Unwrap returns Err.
func (e *TraceError) Unwrap() error { return e.Err }

// ReadTrace reads calls from JSON lines, in any order:
//
//	{"at": "2026-01-05T08:00:00Z", "limits": ["tenants:acme", "openai"], "tokens": 1500, "latency": "2.5s"}
//	{"at": 12.5, "limit": "openai", "tokens": 1500, "used": 1200, "flow": "acme", "priority": "batch"}
//
// At is a moment or seconds since the start, the same in all lines; the first moment is the start. Limit or limits
// name LIMIT or LIMIT:KEY. Tokens is a number; charge has other meters by name. Used is a number of tokens, or an
// object with what is used of each meter. Latency is in seconds, or a text with a unit. Urgent is true or false. A line
// takes from the pattern what it leaves out.
//
// The error joins the first faults, each with its line and field. It is ErrNoCalls for a trace without lines.
func ReadTrace(r io.Reader, p Pattern, limits []reservations.Limit, seed uint64) (
	calls []Call, start time.Time, err error,
) {
	m, err := newMaker(p, limits, seed)
	if err != nil {
		return nil, time.Time{}, err
	}
	t := tracer{maker: m, all: limits}
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		text, more, err := readLine(in)
		if err != nil && !errors.Is(err, errTooLong) {
			return nil, time.Time{}, fmt.Errorf("read line %d: %w", number, err)
		}
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 && err == nil {
			err = t.add(number, text)
		}
		if err != nil {
			t.fault(number, err)
		}
		if !more {
			break
		}
	}
	return t.end()
}

var errTooLong = fmt.Errorf("longer than %d bytes", lineMost)

// readLine reads a line. It skips the rest of a line that is too long.
func readLine(in *bufio.Reader) (text []byte, more bool, err error) {
	for {
		piece, failed := in.ReadSlice('\n')
		if len(text) <= lineMost {
			text = append(text, piece...)
		}
		if errors.Is(failed, bufio.ErrBufferFull) {
			continue
		}
		if failed != nil && !errors.Is(failed, io.EOF) {
			return nil, false, failed
		}
		if len(text) > lineMost {
			err = errTooLong
		}
		return text, failed == nil, err
	}
}

// tracer collects the calls of a trace.
type tracer struct {
	*maker

	all     []reservations.Limit
	calls   []Call
	moments []time.Time // of the calls, where the trace has moments
	seconds int         // lines that have seconds
	faults  []error
	faulty  int
}

func (t *tracer) fault(line int, err error) {
	if t.faulty++; t.faulty > faultsMost {
		return
	}
	fault := &TraceError{Line: line, Err: err}
	if f, ok := errors.AsType[*fieldError](err); ok {
		fault.Field, fault.Err = f.field, f.err
	}
	t.faults = append(t.faults, fault)
}

// fieldError is the fault of a field.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func fieldFault(field, format string, args ...any) error {
	return &fieldError{field: field, err: fmt.Errorf(format, args...)}
}

// end sorts the calls, and counts their moments from the first one.
func (t *tracer) end() ([]Call, time.Time, error) {
	if n := t.faulty - len(t.faults); n > 0 {
		t.faults = append(t.faults, fmt.Errorf("and %d more faulty lines", n))
	}
	if err := errors.Join(t.faults...); err != nil {
		return nil, time.Time{}, err
	}
	if len(t.calls) == 0 {
		return nil, time.Time{}, ErrNoCalls
	}
	var start time.Time
	if len(t.moments) > 0 {
		start = slices.MinFunc(t.moments, time.Time.Compare)
		for i, at := range t.moments {
			d := at.Sub(start)
			if d > UntilDefault {
				return nil, start, &TraceError{
					Line: t.calls[i].Line, Field: "at", Err: fmt.Errorf("%v is more than %v after the first moment, %v",
						at.Format(time.RFC3339), UntilDefault, start.Format(time.RFC3339)),
				}
			}
			t.calls[i].At = d
		}
	}
	slices.SortStableFunc(t.calls, func(a, b Call) int { return int(max(-1, min(1, a.At-b.At))) })
	return t.calls, start, nil
}

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
