package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
)

const (
	fine   = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":5}}`
	events = `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n" + "data: [DONE]\n\n"
)

// good is a provider that answers at once.
func good(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(string(body), `"stream":true`) {
		answer(w, isStream, events)
		return
	}
	answer(w, isJSON, fine)
}

// wait lets time pass.
func wait(d time.Duration) {
	<-time.After(d) // virtual //gate:ok called in bubbles
	synctest.Wait()
}

// A call that need not wait waits for no timer: over a network without delay it takes no time at all.
func TestIdleCallTakesNoTime(t *testing.T) {
	t.Parallel()
	playWith(t, 0, good, nil, func(w *world, g *gate) {
		for range 3 {
			a := g.chat(hello)
			if a.err != nil || a.StatusCode != http.StatusOK || a.took != 0 {
				w.t.Errorf("%v, %v after %v", a.err, a.Response, a.took)
			}
			wait(time.Second)
		}
	}, pool())
}

// A call that waits for less than ten seconds has an answer like any other.
func TestSilentWait(t *testing.T) {
	t.Parallel()
	play(t, good, func(c *gateway.Config) { c.Silent = 30 * time.Second }, func(w *world, g *gate) {
		t := w.t
		g.chat(hello)
		a := g.chat(hello)
		if a.err != nil || a.StatusCode != http.StatusOK || a.text != fine || a.Header.Get("Content-Length") == "" {
			t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
		}
		if a.first < 19*time.Second || a.first > 21*time.Second {
			t.Errorf("the answer came after %v", a.first)
		}
		w.empty()
	})
}

// A call that waits for longer has an open response: spaces before JSON, comments in a stream, with its place.
func TestOpenWait(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		g.chat(hello)
		first := g.send(t.Context(), "/v1/chat/completions", hello)
		wait(time.Second)
		second := g.send(t.Context(), "/v1/chat/completions", streamed)
		a := <-first
		if a.err != nil || a.StatusCode != http.StatusOK || a.text != " "+fine {
			t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
		}
		if a.first != 10*time.Second && a.first.Round(100*time.Millisecond) != 10*time.Second {
			t.Errorf("the response opened after %v", a.first)
		}
		if h := a.Header; h.Get("Headway-Position") != "1" || h.Get("Headway-Wait") != "10.0" {
			t.Errorf("%v", h)
		}
		a = <-second
		if a.err != nil || !strings.HasPrefix(a.text, ": waiting, number 2, about 29s\n\n: waiting, number 1, about ") ||
			!strings.HasSuffix(a.text, "\n\n"+events) {
			t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
		}
		if kind := a.Header.Get("Content-Type"); !strings.HasPrefix(kind, isStream) {
			t.Error(kind)
		}
		w.empty()
	})
}

// A stream that waits has an empty chunk in less than 120 seconds, and keep-alives of its own kind.
func TestEmptyChunks(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		for range 7 { // the last one waits for 120 s
			g.send(t.Context(), "/v1/chat/completions", hello)
			wait(100 * time.Millisecond)
		}
		a := g.chat(streamed)
		if !strings.Contains(a.text, `"object":"chat.completion.chunk"`) || !strings.Contains(a.text, `"delta":{}`) ||
			!strings.HasSuffix(a.text, events) {
			t.Errorf("%q", a.text)
		}
	})
}

// A call that can't start in time is refused at once, and says when it could.
func TestRefusedAtOnce(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		for range 5 { // the next one waits for 100 s
			g.send(t.Context(), "/v1/chat/completions", hello)
			wait(100 * time.Millisecond)
		}
		for name, c := range map[string]struct {
			header      []string
			status      int
			again       bool // the client may retry
			path, class string
		}{
			"30 s": {header: []string{"Headway-Start-By", "30s"}, status: 429},
			"a moment": {
				header: []string{"Headway-Start-By", time.Now().Add(time.Minute).Format(time.RFC3339)}, status: 429,
			},
			"of Node.js": {header: []string{"X-Stainless-Timeout", "60", "X-Stainless-Lang", "js"}, status: 429},
			"of Python": {
				header: []string{"X-Stainless-Read-Timeout", "60.0", "X-Stainless-Lang", "python"}, status: 429,
			},
			"of Go, which waits": {
				header: []string{"X-Stainless-Timeout", "60", "X-Stainless-Lang", "go"}, status: 429, again: true,
			},
			"nonsense":            {header: []string{"Headway-Start-By", "soon"}, status: 400, again: true},
			"of Anthropic's":      {header: []string{"Headway-Start-By", "9s"}, path: "/v1/messages", status: 429},
			"its own goes before": {header: []string{"Headway-Start-By", "5s", "X-Stainless-Timeout", "600"}, status: 429},
		} {
			path := c.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			a := <-g.send(t.Context(), path, hello, c.header...)
			if a.err != nil || a.StatusCode != c.status || a.took > time.Second {
				t.Errorf("%s: %v, %v after %v: %s", name, a.err, a.Response, a.took, a.text)
				continue
			}
			if c.status != 429 {
				continue
			}
			h := a.Header
			if after := len(h.Get("Retry-After-Ms")); len(h.Get("Retry-After")) < 2 || after < 5 || after > 6 ||
				(h.Get("X-Should-Retry") == "false") == c.again || h.Get("X-Ratelimit-Remaining-Requests") != "0" {
				t.Errorf("%s: %v", name, h)
			}
			want := `"type":"rate_limit_error"`
			if !strings.Contains(a.text, want) {
				t.Errorf("%s: %s", name, a.text)
			}
		}
		wait(200 * time.Second)
		w.empty()
	})
}

// A call whose time is over before the store has answered is too late. That is no fault of the store.
func TestTooLateForTheStore(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		w.store.pace.Store(int64(20 * time.Millisecond))
		a := g.chat(hello, "Headway-Start-By", "1ms")
		if a.StatusCode != http.StatusTooManyRequests || a.took > time.Second || a.Header.Get("Retry-After") == "" {
			w.t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
		}
		w.store.pace.Store(0)
		w.empty()
	})
}

// The place counts, not what the bucket promised before: with a priority a call may start long before others.
func TestRefusalsKnowPriorities(t *testing.T) {
	t.Parallel()
	limit := slow()
	limit.Priorities = map[string]float64{"high": 1000, "low": 1}
	known := callers{"a": {Priority: "low"}, "b": {Priority: "high"}}
	play(t, good, func(c *gateway.Config) { c.Keys = known }, func(w *world, g *gate) {
		t := w.t
		for range 10 {
			g.send(t.Context(), "/v1/chat/completions", hello, "Authorization", "Bearer a")
			wait(100 * time.Millisecond)
		}
		a := g.chat(hello, "Authorization", "Bearer b", "Headway-Start-By", "60s")
		if a.StatusCode != http.StatusOK || a.took > time.Minute {
			t.Errorf("%v after %v: %s", a.Response, a.took, a.text)
		}
		wait(5 * time.Minute)
		w.empty()
	}, limit)
}

// A call that seemed to start in time, and does not, ends with the kind of error that fits its response.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	play(t, good, func(c *gateway.Config) { c.MaxHold = time.Minute }, func(w *world, g *gate) {
		t := w.t
		w.store.away.Store(true)
		stream := g.send(t.Context(), "/v1/chat/completions", streamed)
		silent := g.send(t.Context(), "/v1/chat/completions", hello, "Headway-Start-By", "5s")
		open := g.send(t.Context(), "/v1/chat/completions", hello)
		sound := g.send(t.Context(), "/v1/audio/speech", `{"model":"m","input":"hi"}`)
		if a := <-silent; a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("%v: %s", a.Response, a.text)
		}
		if a := <-stream; a.err != nil || a.StatusCode != http.StatusOK ||
			!strings.Contains(a.text, "\n\ndata: {\"error\":{\"code\":\"limits_unavailable\"") {
			t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
		}
		if a := <-open; a.err == nil || a.StatusCode != http.StatusOK || !strings.Contains(a.text, "limits_unavailable") {
			t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
		}
		if a := <-sound; a.StatusCode != http.StatusServiceUnavailable || a.took < time.Minute {
			t.Errorf("%v after %v: %s", a.Response, a.took, a.text)
		}
		w.store.away.Store(false)
		wait(time.Minute)
		w.empty()
	})
}

// A caller that goes away while it waits leaves at once: the next one gets its turn.
func TestCallerGoesAwayWhileWaiting(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		g.chat(hello)
		ctx, cancel := context.WithCancel(t.Context())
		first := g.send(ctx, "/v1/chat/completions", hello)
		wait(time.Second)
		second := g.send(t.Context(), "/v1/chat/completions", hello)
		wait(time.Second)
		cancel()
		if a := <-first; a.err == nil {
			t.Errorf("%v", a.Response)
		}
		if a := <-second; a.StatusCode != http.StatusOK || a.took > 20*time.Second {
			t.Errorf("%v after %v: %s", a.Response, a.took, a.text)
		}
		w.empty()
	})
}

// A gateway that stops ends all waits, with an error that has clients try again.
func TestStop(t *testing.T) {
	t.Parallel()
	play(t, good, func(c *gateway.Config) { c.MaxHold = 10 * time.Hour }, func(w *world, g *gate) {
		t := w.t
		g.chat(hello)
		held := make([]<-chan reply, 100)
		for i := range held {
			held[i] = g.send(t.Context(), "/v1/chat/completions", hello)
		}
		wait(time.Second)
		g.gateway.Stop()
		for _, one := range held {
			if a := <-one; a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("X-Should-Retry") == "false" {
				t.Errorf("%v: %s", a.Response, a.text)
			}
		}
		w.empty()
	})
}
