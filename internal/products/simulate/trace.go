package simulate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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
