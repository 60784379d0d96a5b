package openai_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/bucket"
)

// recorded returns headers from testdata.
func recorded(t *testing.T, name string) http.Header {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "headers", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(text, '\n')))).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return http.Header(h)
}

func TestReadHeaders(t *testing.T) {
	t.Parallel()
	const (
		requestsDay = openai.MeterRequestsPerDay
		groq        = openai.Groq
		anthropic   = openai.Anthropic
		other       = openai.Provider("")
	)
	for name, want := range map[string][]openai.Seen{
		// OpenAI developer community: "How to get rate limit reset time for response API?". Unknown kinds are
		// ignored.
		"openai_chat": {
			{other, openai.MeterRequests, 5000, 4999, 12 * time.Millisecond},
			{other, openai.MeterTokens, 160000, 159976, 9 * time.Millisecond},
		},
		// OpenAI documentation: "Rate limits", section "Rate limits in headers". Its example is impossible: 16 tokens
		// of 150 000 a minute are refilled in milliseconds, not in six minutes. So the tokens are ignored.
		"openai_guide": {
			{other, openai.MeterRequests, 60, 59, time.Second},
		},
		// 8.64 s for one of 10 000 is the rate of a day, under the name of a minute's.
		"openai_daily": {
			{other, requestsDay, 10000, 9999, 8640 * time.Millisecond},
			{other, openai.MeterTokens, 200000, 199973, 8 * time.Millisecond},
		},
		// The free tier's 200 requests a day.
		"openai_small_daily": {
			{other, requestsDay, 200, 197, 21*time.Minute + 36*time.Second},
			{other, openai.MeterTokens, 40000, 38957, 1564 * time.Millisecond},
		},
		// The same thread of the community, an account with large limits.
		"openai_large": {
			{other, openai.MeterRequests, 30000, 29999, 2 * time.Millisecond},
			{other, openai.MeterTokens, 150000000, 149999983, 0},
		},
		// Microsoft Q&A: "Azure OpenAI Responses API x-ratelimit headers values -1, 0".
		"azure_minus_one": nil,
		// oaib, issue "Azure support: Auto": only the remaining tokens.
		"azure_chat": {
			{other, openai.MeterRequests, 0, 79, 0},
			{other, openai.MeterTokens, 0, 61353, 0},
		},
		// openai-python, issue "Handling of TPM limit errors for Azure (x-rate-limit-reset-tokens)".
		"azure_429": {
			{other, openai.MeterRequests, 0, 230, 0},
		},
		// Claude documentation: "Rate limits", section "Response headers"; recorded in coday, issue "Implement
		// intelligent rate limiting and retry mechanism for Anthropic API".
		"anthropic_429": {
			{anthropic, openai.MeterRequests, 4000, 4000, 0},
			{anthropic, openai.MeterTokens, 280000, 80000, 0},
			{anthropic, openai.MeterInput, 200000, 0, 63 * time.Second},
			{anthropic, openai.MeterOutput, 80000, 80000, 0},
		},
		// anthropic-sdk-typescript, issue "retry-after header missing from response".
		"anthropic_old_429": {
			{anthropic, openai.MeterRequests, 5, 0, time.Second},
			{anthropic, openai.MeterTokens, 25000, 16000, time.Second},
		},
		// A reset in the past, and a reset of whole seconds for a single request of many, which is still a minute's.
		"anthropic_past": {
			{anthropic, openai.MeterRequests, 50000, 49999, time.Second},
			{anthropic, openai.MeterOutput, 400000, 399000, 0},
		},
		// Groq documentation: "Rate Limits", section "Rate Limit Headers": requests are per day, tokens per minute.
		"groq_guide": {
			{groq, requestsDay, 14400, 14370, 2*time.Minute + 59560*time.Millisecond},
			{groq, openai.MeterTokens, 18000, 17997, 7660 * time.Millisecond},
		},
		// The same through a gateway that drops the headers that identify Groq.
		"groq_unnamed": {
			{other, requestsDay, 14400, 14370, 2*time.Minute + 59560*time.Millisecond},
			{other, openai.MeterTokens, 18000, 17997, 7660 * time.Millisecond},
		},
		// The limit of the error in aider, issue "Handle retry-after HTTP header (Groq API)".
		"groq_429": {
			{groq, requestsDay, 14400, 14399, 6 * time.Second},
			{groq, openai.MeterTokens, 15000, 3028, 47888 * time.Millisecond},
		},
		// Cerebras documentation: "Rate Limits", section "Rate limit headers".
		"cerebras": {
			{other, requestsDay, 1000000000, 999997455, 33011382867097},
			{other, openai.MeterTokens, 1000000000, 999998298, 11382867097},
		},
		// The package does not guess the kinds of gateways that name none.
		"epochs": nil,
		"garbage": {
			{other, openai.MeterRequests, 0, 12, 0},
			{other, openai.MeterInput, 0, 0, 0},
		},
		"contradiction": {
			{other, openai.MeterInput, 500, 400, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := openai.ReadHeaders(recorded(t, name), time.Now())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without a Date the caller's clock counts.
func TestReadHeadersWithoutDate(t *testing.T) {
	t.Parallel()
	h := recorded(t, "anthropic_429")
	h.Del("Date")
	for _, c := range []struct {
		now  string
		want time.Duration
	}{{"2025-06-02T15:14:48Z", time.Minute}, {"2025-06-02T16:00:00Z", 0}} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range openai.ReadHeaders(h, now) {
			if s.Kind == openai.MeterInput && s.Reset != c.want {
				t.Errorf("at %s: reset %v, want %v", c.now, s.Reset, c.want)
			}
		}
	}
}

func FuzzReadHeaders(f *testing.F) {
	names, err := filepath.Glob("testdata/headers/*.http")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		h := http.Header{}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				h.Add(name, strings.TrimSpace(value))
			}
		}
		for _, s := range openai.ReadHeaders(h, now) {
			if !(s.Remaining >= 0 && s.Remaining <= 1e15 && s.Limit >= 0 && s.Limit <= 1e15) ||
				math.Signbit(s.Remaining) ||
				s.Reset < 0 || s.Reset > bucket.MaxWait || s.Kind == "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// A reset may be a Unix time, as of gateways.
func TestReadHeadersWithUnixTimes(t *testing.T) {
	t.Parallel()
	for _, reset := range []string{
		"1795262409", "1795262409000", "2026-11-21T12:00:09Z", "9", "9s", "Sat, 21 Nov 2026 12:00:09 GMT",
	} {
		h := http.Header{}
		h.Set("X-Ratelimit-Limit-Tokens", "100")
		h.Set("X-Ratelimit-Remaining-Tokens", "10")
		h.Set("X-Ratelimit-Reset-Tokens", reset)
		want := []openai.Seen{{Kind: openai.MeterTokens, Limit: 100, Remaining: 10, Reset: 9 * time.Second}}
		if diff := cmp.Diff(want, openai.ReadHeaders(h, noon)); diff != "" {
			t.Errorf("%s: %s", reset, diff)
		}
	}
}
