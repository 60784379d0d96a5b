package llm_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// A refused call names a time to retry, or is a failure like any other.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	const date = "Sat, 21 Nov 2026 10:00:00 GMT"
	type headers map[string]string
	for name, c := range map[string]struct {
		status int
		header headers
		want   time.Duration // zero: no time
	}{
		"seconds": {429, headers{"Retry-After": "5"}, 5 * time.Second},
		"date": {
			429,
			headers{"Retry-After": "Sat, 21 Nov 2026 10:01:30 GMT", "Date": date},
			90 * time.Second,
		},
		"milliseconds": {
			429,
			headers{"Retry-After-Ms": "1500", "Retry-After": "2"},
			1500 * time.Millisecond,
		},
		"overloaded": {503, headers{"Retry-After": "5"}, 5 * time.Second},
		"a year":     {429, headers{"Retry-After": "31536000"}, bucket.MaxBlockMost},
		"a year, as a date": {
			503,
			headers{"Retry-After": "Sun, 21 Nov 2027 10:00:00 GMT", "Date": date},
			bucket.MaxBlockMost,
		},
		"nothing":             {429, nil, 0},
		"overloaded, nothing": {503, headers{"X-Ratelimit-Reset-Requests": "1s"}, 0},
		"garbage":             {429, headers{"Retry-After": "soon", "X-Ratelimit-Reset-Requests": "1s"}, 0},
		"at once":             {429, headers{"Retry-After": "0", "X-Ratelimit-Reset-Requests": "1s"}, 0},
		"in the past":         {429, headers{"Retry-After": "-3"}, 0},
		"another status":      {500, headers{"Retry-After": "5"}, 0},
		"requests ran out": {429, headers{
			"X-Ratelimit-Remaining-Requests": "0",
			"X-Ratelimit-Reset-Requests":     "8.64s", "X-Ratelimit-Remaining-Tokens": "900",
			"X-Ratelimit-Reset-Tokens": "6m0s",
		}, 8640 * time.Millisecond},
		"tokens ran out": {429, headers{
			"X-Ratelimit-Remaining-Requests": "9",
			"X-Ratelimit-Reset-Requests":     "1h", "X-Ratelimit-Remaining-Tokens": "0",
			"X-Ratelimit-Reset-Tokens": "120ms",
		}, 120 * time.Millisecond},
		"both ran out": {429, headers{
			"X-Ratelimit-Remaining-Requests": "0",
			"X-Ratelimit-Reset-Requests":     "1s", "X-Ratelimit-Remaining-Tokens": "0",
			"X-Ratelimit-Reset-Tokens": "2m59.56s",
		}, 2*time.Minute + 59560*time.Millisecond},
		"tokens too few": {429, headers{
			"X-Ratelimit-Remaining-Requests": "9",
			"X-Ratelimit-Reset-Requests":     "1h", "X-Ratelimit-Remaining-Tokens": "7",
			"X-Ratelimit-Reset-Tokens": "3",
		}, 3 * time.Second},
		"resets without remaining tokens": {429, headers{
			"X-Ratelimit-Reset-Requests": "1s",
			"X-Ratelimit-Reset-Tokens":   "2s",
		}, 2 * time.Second},
		"resets that make no sense": {429, headers{
			"X-Ratelimit-Reset-Requests": "-1s",
			"X-Ratelimit-Reset-Tokens":   "later",
		}, 0},
		"a reset in a thousand years": {429, headers{"X-Ratelimit-Reset-Requests": "1e12"}, bucket.MaxBlockMost},
		"only tokens are named": {429, headers{
			"X-Ratelimit-Remaining-Tokens": "7",
			"X-Ratelimit-Reset-Tokens":     "3s",
		}, 3 * time.Second},
		"minus one is not a number": {429, headers{
			"X-Ratelimit-Remaining-Tokens": "-1",
			"X-Ratelimit-Reset-Tokens":     "0",
		}, 0},
		"anthropic, in the past": {429, headers{
			"Anthropic-Ratelimit-Tokens-Remaining": "0",
			"Anthropic-Ratelimit-Tokens-Reset":     "2026-11-21T09:59:00Z", "Date": date,
		}, 0},
		"anthropic, in a year": {429, headers{
			"Anthropic-Ratelimit-Tokens-Remaining": "0",
			"Anthropic-Ratelimit-Tokens-Reset":     "2027-11-21T10:00:00Z", "Date": date,
		}, bucket.MaxBlockMost},
		"anthropic, no time": {429, headers{
			"Anthropic-Ratelimit-Tokens-Remaining": "0",
			"Anthropic-Ratelimit-Tokens-Reset":     "soon", "Date": date,
		}, 0},
		"retry-after before the reset": {
			429,
			headers{"Retry-After": "2", "X-Ratelimit-Reset-Requests": "1h"},
			2 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
			})
			_, err := client.Run(t.Context(), newChat(t, hello), nil)
			if e, ok := errors.AsType[*llm.Error](err); !ok || e.StatusCode != c.status ||
				errors.Is(err, tasks.ErrPermanent) {
				t.Fatalf("%v", err)
			}
			var got time.Duration
			if refusal, ok := errors.AsType[*reservations.RetryAfterError](err); ok {
				got = refusal.After
			}
			if got != c.want {
				t.Errorf("to come back after %v, want %v (%v)", got, c.want, err)
			}
		})
	}
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"Request too large for gpt"}}`)
	})
	_, err := client.Run(t.Context(), newChat(t, hello), nil)
	if _, ok := errors.AsType[*reservations.RetryAfterError](err); ok || !errors.Is(err, tasks.ErrPermanent) {
		t.Errorf("a request that is too large: %v", err)
	}
}

// The times of recorded refusals.
func TestRefusedCallsAsRecorded(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{
		"anthropic_429":     16 * time.Second, // Retry-After, not the 63 s until all input tokens are refilled
		"anthropic_old_429": time.Second,
		"azure_429":         55 * time.Second,
		"azure_minus_one":   0,
		"groq_429":          3 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), recorded(t, name))
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
			})
			_, err := client.Run(t.Context(), newChat(t, hello), nil)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.RetryAfter != want {
				t.Errorf("retry after %v, want %v (%v)", e.RetryAfter, want, err)
			}
		})
	}
}
