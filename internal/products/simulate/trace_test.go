package simulate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/reservations"
)

// traceLimits are the limits of the traces here.
func traceLimits() []reservations.Limit {
	return []reservations.Limit{perSecond("tenants", 5, 5), openai()}
}

// tracePattern is what the lines leave out.
func tracePattern() simulate.Pattern {
	return simulate.Pattern{
		Buckets: []reservations.Charge{{Limit: "openai"}}, Tokens: simulate.Range{Least: 100, Most: 100},
		Latency: simulate.Range{Least: 5, Most: 5},
	}
}

func TestReadTrace(t *testing.T) {
	t.Parallel()
	const trace = "\ufeff" +
		`{"at": "2026-03-01T08:00:02.5+01:00", "tokens": 1500, "used": 1200, "latency": "2.5s", "flow": "acme"}

{"at": "2026-03-01T07:00:00Z", "limits": ["tenants:acme", "openai"], "used": {"tokens": 1}, "urgent": true}
{"at": "2026-03-01T07:00:01Z", "limit": "openai:k", "charge": {"tokens": 7, "requests": 2}, "latency": 0.25}`
	calls, start, err := simulate.ReadTrace(strings.NewReader(trace), tracePattern(), traceLimits(), 1)
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(requests, n float64) reservations.Tokens {
		return reservations.Tokens{"requests": requests, "tokens": n}
	}
	want := []simulate.Call{
		{
			Line: 3, Latency: 5 * time.Second, Used: reservations.Tokens{"tokens": 1}, Charges: []reservations.Charge{
				{Limit: "tenants", Key: "acme", Tokens: reservations.Tokens{"requests": 1}, Urgent: true},
				{Limit: "openai", Tokens: tokens(1, 100), Urgent: true},
			},
		},
		{
			Line: 4, At: time.Second, Latency: 250 * time.Millisecond,
			Charges: []reservations.Charge{{Limit: "openai", Key: "k", Tokens: tokens(2, 7)}},
		},
		{
			Line: 1, At: 2500 * time.Millisecond, Latency: 2500 * time.Millisecond,
			Used:    reservations.Tokens{"tokens": 1200, "tokens_per_day": 1200},
			Charges: []reservations.Charge{{Limit: "openai", Tokens: tokens(1, 1500), Flow: "acme"}},
		},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if !start.Equal(time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)) {
		t.Errorf("start %v", start)
	}
}

func TestReadTraceNamesFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"at": 1, "limit": "openia"}`:             `line 1: limit: "openia": reservations: unknown limit`,
		`{"at": 1, "limit": "openai:"}`:            `line 1: limits: "openai:": a key must follow the colon`,
		`{"at": 1, "limit": "a", "limits": ["b"]}`: `line 1: limit: "a" beside limits`,
		"\n\n" + `{"limit": "openai"}`:             `line 3: at: missing`,
		`{"at": -1}`:                               `line 1: at: -1 seconds must be from 0 to`,
		`{"at": "yesterday"}`:                      `line 1: at: "yesterday" must be a moment such as`,
		`{"at": 1, "token": 5}`:                    `line 1: token: there is no such field; did you mean "tokens"`,
		`{"at": 1, "tokens": "5"}`:                 `line 1: tokens: a string must be a float64`,
		`{"at": 1, "latency": "5"}`:                `line 1: latency: "5" must be seconds, or a text such as "2.5s"`,
		`{"at": 1, "used": "much"}`:                `line 1: used: "much" must be a number of tokens`,
		`{"at": 1, "charge": {"calls": 1}}`:        `line 1: charge: "calls" is no meter of limit openai`,
		`{"at": 1`:                                 `line 1: not a JSON object`,
		"[]":                                       `line 1: not a JSON object`,
		"null":                                     `line 1: not a JSON object`,
		"{\"at\": 1, \"flow\": \"\xff\"}":          `line 1: not valid UTF-8`,
		`{"at": 1}` + "\n" + `{"at": "2026-01-01T00:00:00Z"}`: `all lines must have moments`,
		strings.Repeat("x", 2<<20) + "\n{}":                   `line 1: longer than 1048576 bytes`,
		strings.Repeat("{}\n", 30):                            `and 10 more faulty lines`,
		"":                                                    `no calls to simulate`,
		`{"at": "1970-01-01T00:00:00Z"}` + "\n" + `{"at": "2199-01-01T00:00:00Z"}`: `line 2: at: 2199-01`,
	} {
		_, _, err := simulate.ReadTrace(strings.NewReader(text), tracePattern(), traceLimits(), 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: %v, want %q", text, err, want)
		}
	}
	_, _, err := simulate.ReadTrace(strings.NewReader("\n{}"), tracePattern(), traceLimits(), 1)
	if fault, ok := errors.AsType[*simulate.TraceError](err); !ok || fault.Line != 2 || fault.Field != "at" {
		t.Errorf("%#v", err)
	}
}

// FuzzReadTrace reads hostile traces, and simulates the calls of the ones that are accepted.
func FuzzReadTrace(f *testing.F) {
	f.Add(`{"at": 0, "tokens": 1500, "used": 1200, "latency": "2.5s", "flow": "acme", "priority": "x", "urgent": true}`)
	f.Add(`{"at": "2026-03-01T07:00:00Z", "limits": ["tenants:acme", "openai"], "used": {"tokens": 1}}`)
	f.Add(`{"at": 1e300, "limit": "openai:` + strings.Repeat("k", 600) + `", "charge": {"tokens": -1}}`)
	f.Add("\x00\n{\"at\":1,\"at\":2}\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		calls, start, err := simulate.ReadTrace(strings.NewReader(text), tracePattern(), traceLimits(), 1)
		if err != nil || len(calls) > 100 {
			return
		}
		r, err := simulate.Run(traceLimits(), calls, simulate.Config{Start: start, Large: true, Until: time.Hour * 1000})
		if err == nil && (r.Calls != len(calls) || r.Done > r.Calls) {
			t.Errorf("%d calls, %+v", len(calls), r)
		}
	})
}
