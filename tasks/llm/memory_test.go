package llm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// unpacks serves an answer that is small before it is unpacked.
func unpacks(tb testing.TB, megabytes int) http.HandlerFunc {
	tb.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, `{"choices":[{"text":"a"}],"id":"`)
	for range megabytes {
		_, _ = w.Write(bytes.Repeat([]byte("a"), 1<<20))
	}
	_, _ = io.WriteString(w, `"}`)
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped.Bytes())
	}
}

func TestAnswersThatUnpackAreBounded(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, unpacks(t, 33))
	if _, err := client.Run(t.Context(), newChat(t, hello), nil); !errors.Is(err, llm.ErrTooLarge) {
		t.Error(err)
	}
}

// While an answer is held, the next large one waits for memory, and a small one does not.
func TestAnswersShareMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, answersShareMemory)
}

func answersShareMemory(t *testing.T) {
	const most = 4 << 20
	memory := intake.New(2 * most)
	config := llm.Config{MaxBody: most, Memory: memory}
	large, small := inMemory(t, config, unpacks(t, 3)), inMemory(t, config, unpacks(t, 0))
	held, letGo := intake.Hold(t.Context())
	if _, err := large.Run(held, newChat(t, hello), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Run(t.Context(), newChat(t, hello), nil); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := large.Run(soon, newChat(t, hello), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one did not wait: %v", err)
	}
	letGo()
	if _, err := large.Run(t.Context(), newChat(t, hello), nil); err != nil {
		t.Error(err)
	}
}

// BenchmarkAnswersThatUnpack measures the memory of eight concurrent calls with 255 kB each on the wire. heap-MB is
// the memory that the process has taken from the system.
func BenchmarkAnswersThatUnpack(b *testing.B) {
	for name, config := range map[string]llm.Config{"default": {}, "bound=256MB": {
		MaxBody: 257 << 20,
		Memory:  intake.New(1 << 40),
	}} {
		b.Run(name, func(b *testing.B) {
			client := provider(b, config, unpacks(b, 255))
			chat := newChat(b, hello)
			for b.Loop() {
				var calls sync.WaitGroup
				for range 8 {
					calls.Go(func() { _, _ = client.Run(b.Context(), chat, nil) })
				}
				calls.Wait()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapSys)/1e6, "heap-MB")
		})
	}
}

// An impossible usage is not charged, and is logged.
func TestUsageIsBoundByWhatWasReserved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		usage  string
		most   float64 // of the reservation
		exact  float64
		logged bool
	}{
		{`{"prompt_tokens":7,"completion_tokens":5}`, 1, 12, false},
		{`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":2147483647}`, 20, 0, true},
		{`{"prompt_tokens":2000000000,"completion_tokens":1}`, 20, 0, true},
	} {
		var log bytes.Buffer
		client := provider(t, llm.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"id":"c1","choices":[{"text":"a"}],"usage":`+c.usage+`}`)
			})
		chat := newChat(t, hello)
		var used reservations.Tokens
		if _, err := client.Run(t.Context(), chat, func(u reservations.Tokens) { used = u }); err != nil {
			t.Fatal(err)
		}
		got := used[llm.MeterTokens]
		if got <= 0 || got > c.most*chat.Taken[0].Tokens[llm.MeterTokens] || c.exact > 0 && got != c.exact {
			t.Errorf("%s: used %v of %v reserved", c.usage, got, chat.Taken[0].Tokens)
		}
		if logged := strings.Contains(log.String(), "level=WARN"); logged != c.logged {
			t.Errorf("%s: log %q", c.usage, log.String())
		}
	}
}
