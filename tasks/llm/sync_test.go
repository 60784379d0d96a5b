package llm_test

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// all are the possible meters of a chat.
var all = []string{
	llm.MeterRequests, llm.MeterTokens, llm.MeterInput, llm.MeterOutput, llm.MeterRequestsPerDay, llm.MeterTokensPerDay,
}

// recorded returns the headers of a recorded answer. TestReadHeaders of package openai names their sources.
func recorded(t *testing.T, name string) http.Header {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "internal", "api", "openai", "testdata", "headers", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	h, err := textproto.NewReader(bufio.NewReader(io.MultiReader(f, strings.NewReader("\n")))).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return http.Header(h)
}

// observe makes one call with recorded headers in its answer, and returns the observation of Run, or nil.
func observe(t *testing.T, config llm.Config, status int, headers string, meters ...string) *reservations.Observation {
	t.Helper()
	var saw *reservations.Observation
	synctest.Test(t, func(t *testing.T) { saw = observed(t, config, status, headers, meters...) })
	return saw
}

// took is how long the provider of observed needs for its answer.
const took = 3 * time.Second

func observed(t *testing.T, config llm.Config, status int, headers string, meters ...string) *reservations.Observation {
	t.Helper()
	client := inMemory(t, config, func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(took)
		maps.Copy(w.Header(), recorded(t, headers))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, done)
	})
	var saw *reservations.Observation
	_, err := client.Run(t.Context(), newChat(t, hello, meters...), nil, nil, func(o reservations.Observation) {
		if saw != nil {
			t.Error("told twice")
		}
		saw = &o
	})
	if failed, ok := errors.AsType[*llm.Error](err); status != http.StatusOK && (!ok || failed.StatusCode != status) {
		t.Fatal(err)
	}
	if saw != nil && saw.Age != took {
		t.Errorf("age %v, want %v", saw.Age, took)
	}
	return saw
}

func TestRunSaysWhatItSaw(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config  llm.Config
		status  int
		headers string
		meters  []string
		want    reservations.Tokens // nil: nothing
	}{
		"openai": {headers: "openai_chat", want: reservations.Tokens{
			"requests": 4999,
			"tokens":   159976,
		}},
		"meters not charged": {
			headers: "openai_chat", meters: []string{llm.MeterTokens},
			want: reservations.Tokens{"tokens": 159976},
		},
		"no such meters":        {headers: "openai_chat", meters: []string{llm.MeterInput, llm.MeterOutput}},
		"a day is not a minute": {headers: "groq_guide", want: reservations.Tokens{"tokens": 17997}},
		"a day": {headers: "groq_guide", meters: all, want: reservations.Tokens{
			"tokens":           17997,
			"requests_per_day": 14370,
		}},
		"a day at OpenAI": {headers: "openai_daily", meters: all, want: reservations.Tokens{
			"tokens":           199973,
			"requests_per_day": 9999,
		}},
		"a day, unnamed": {headers: "groq_unnamed", meters: []string{llm.MeterRequests}},
		"anthropic, rounded": {headers: "anthropic_past", meters: all, want: reservations.Tokens{
			"requests":      49999,
			"output_tokens": 399500,
		}},
		"anthropic's tokens": {headers: "anthropic_old_429", meters: all, want: reservations.Tokens{"requests": 0}},
		"anthropic's, asked for": {
			config:  llm.Config{Meters: map[string]string{"tokens": "tokens"}},
			headers: "anthropic_old_429", want: reservations.Tokens{"requests": 0, "tokens": 16500},
		},
		"another name": {
			config:  llm.Config{Meters: map[string]string{"requests_per_day": "requests"}},
			headers: "groq_guide", want: reservations.Tokens{"tokens": 17997, "requests": 14370},
		},
		"two for one": {
			config:  llm.Config{Meters: map[string]string{"requests_per_day": "tokens"}},
			headers: "groq_guide", want: reservations.Tokens{"tokens": 14370},
		},
		"none": {
			config: llm.Config{Meters: map[string]string{"tokens": ""}}, headers: "openai_chat",
			want: reservations.Tokens{"requests": 4999},
		},
		"a refusal": {status: 429, headers: "groq_429", want: reservations.Tokens{"tokens": 3028}},
		"a failure": {status: 500, headers: "openai_chat", want: reservations.Tokens{
			"requests": 4999,
			"tokens":   159976,
		}},
		"off":       {config: llm.Config{Sync: llm.SyncOff}, headers: "openai_chat"},
		"minus one": {headers: "azure_minus_one", meters: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.status == 0 {
				c.status = http.StatusOK
			}
			saw := observe(t, c.config, c.status, c.headers, c.meters...)
			var got reservations.Tokens
			if saw != nil {
				got = saw.Remaining
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if saw != nil && saw.Up {
				t.Error("upwards, which must not happen")
			}
		})
	}
}

func TestRunSeesBothWaysWhereAsked(t *testing.T) {
	t.Parallel()
	saw := observe(t, llm.Config{Sync: llm.SyncBoth}, http.StatusOK, "anthropic_past", all...)
	want := reservations.Tokens{"requests": 49999, "output_tokens": 399000} // no more than the headers show
	if saw == nil || !saw.Up {
		t.Fatalf("got %+v", saw)
	}
	if diff := cmp.Diff(want, saw.Remaining); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsSeenWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := client.Run(t.Context(), newChat(t, hello), nil,
		func(o reservations.Observation) { t.Errorf("saw %+v", o) })
	if err == nil {
		t.Error("no error")
	}
	client = provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, done) })
	answer, err := client.Run(t.Context(), newChat(t, hello), nil,
		func(o reservations.Observation) { t.Errorf("saw %+v", o) })
	if err != nil || answer.Body == nil {
		t.Errorf("%+v, %v", answer, err)
	}
}

// A client of the program's own gets the same from the headers, and the time to wait of a refusal.
func TestReadLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		headers string
		status  int
		left    reservations.Tokens
		wait    time.Duration
	}{
		{"openai_chat", 200, reservations.Tokens{"requests": 4999, "tokens": 159976}, 0},
		{"groq_guide", 200, reservations.Tokens{"requests_per_day": 14370, "tokens": 17997}, 0},
		{"anthropic_past", 200, reservations.Tokens{"requests": 49999, "output_tokens": 399500}, 0},
		{"azure_minus_one", 200, reservations.Tokens{}, 0},
		{"groq_429", 429, reservations.Tokens{"requests_per_day": 14399, "tokens": 3028}, 3 * time.Second},
		{"groq_429", 500, reservations.Tokens{"requests_per_day": 14399, "tokens": 3028}, 0},
	} {
		left, wait := llm.ReadLimits(&http.Response{StatusCode: c.status, Header: recorded(t, c.headers)})
		if diff := cmp.Diff(c.left, left); diff != "" || wait != c.wait {
			t.Errorf("%s, %d: wait %v, %s", c.headers, c.status, wait, diff)
		}
	}
}
