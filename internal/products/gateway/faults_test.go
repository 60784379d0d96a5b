package gateway_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
)

// wide is a limit that lets 10 calls start at once, of 1000 tokens together, and gets nothing back within a test.
func wide() reservations.Limit {
	l := pool()
	l.Meters[0].Period, l.Meters[1].Period = 100_000*time.Hour, 100_000*time.Hour
	return l
}

// What a provider does wrong has a documented answer, and a cost that is known.
func TestFaultsOfTheProvider(t *testing.T) {
	t.Parallel()
	const all = 100 + helloInput
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		change func(*world)
		body   string
		status int
		text   string  // is part of the answer
		used   float64 // of the tokens
		calls  float64 // of the requests; 1 if zero, none if negative
	}{
		"away": {
			change: func(w *world) { w.provider.wire.Set(network.Refuse) }, status: http.StatusBadGateway,
			text: `"code":"provider_unreachable"`, calls: -1,
		},
		"hangs": {
			handle: func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}, status: http.StatusGatewayTimeout, text: `"code":"provider_timeout"`, used: all,
		},
		"never ends": {
			handle: func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", isStream)
				for r.Context().Err() == nil {
					_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"1234"}}]}`+"\n\n")
					_ = http.NewResponseController(w).Flush()
					select {
					case <-time.After(10 * time.Second): //gate:ok called in a bubble
					case <-r.Context().Done():
					}
				}
			}, body: streamed, status: http.StatusOK, text: "provider_failed", used: helloInput + 6,
		},
		"breaks off a stream": {
			handle: func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", isStream)
				_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"12345678"}}]}`+"\n\ndata: {")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}, body: streamed, status: http.StatusOK, text: `"code":"provider_failed"`, used: helloInput + 2,
		},
		"answers with a page": {
			handle: func(w http.ResponseWriter, _ *http.Request) { answer(w, "text/html", "<html>") },
			status: http.StatusOK, text: "<html>", used: all,
		},
		"answers with broken JSON": {
			handle: func(w http.ResponseWriter, _ *http.Request) { answer(w, isJSON, `{"usage":{"prompt_tok`) },
			status: http.StatusOK, text: `{"usage":{"prompt_tok`, used: all,
		},
		"streams what is no event": {
			handle: func(w http.ResponseWriter, _ *http.Request) { answer(w, isStream, "\x00\xff{\n\ndata: {]\n\n") },
			body:   streamed, status: http.StatusOK, used: helloInput + 1,
		},
		"answers with an error": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				answer(w, isJSON, `{"error":{"message":"no, `+providerKey+`"}}`)
			}, status: http.StatusBadRequest, text: `{"error":{"message":"no, ***"}}`,
		},
		"fails": {
			handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			status: http.StatusInternalServerError, used: all,
		},
		"refuses the key": {
			handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			status: http.StatusBadGateway, text: `"code":"provider_key_refused"`,
		},
		"redirects": {
			handle: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere/", http.StatusTemporaryRedirect)
			},
			status: http.StatusBadGateway, text: `"code":"provider_failed"`,
		},
		"has no quota left": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusTooManyRequests)
				answer(w, isJSON, `{"error":{"code":"insufficient_quota","message":"pay"}}`)
			}, status: http.StatusTooManyRequests, text: "insufficient_quota",
		},
		"refuses for long": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusTooManyRequests)
			}, status: http.StatusTooManyRequests,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handle := c.handle
			if handle == nil {
				handle = good
			}
			play(t, handle, func(c *gateway.Config) { c.Timeout = time.Minute }, func(w *world, g *gate) {
				t := w.t
				if c.change != nil {
					c.change(w)
				}
				body := c.body
				if body == "" {
					body = hello
				}
				a := g.chat(body)
				if a.err != nil || a.StatusCode != c.status || !strings.Contains(a.text, c.text) ||
					strings.Contains(a.text, providerKey) {
					t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
				}
				wait(time.Second)
				v, err := g.limiter.View(t.Context(), "pool", "")
				if err != nil {
					t.Fatal(err)
				}
				calls := max(0, c.calls)
				if c.calls == 0 {
					calls = 1
				}
				if v.Blocked > 0 { // it shows no tokens
					return
				}
				if got := 1000 - v.Meters[0].Level; got < c.used-0.1 || got > c.used+0.1 {
					t.Errorf("%v tokens are charged, want %v", got, c.used)
				}
				if got := 10 - v.Meters[1].Level; got < calls-0.1 || got > calls+0.1 {
					t.Errorf("%v requests are charged, want %v", got, calls)
				}
				w.empty()
			}, wide())
		})
	}
}

// A caller sees no refusal of the provider that waiting can avoid, and others wait for it too.
func TestRefusedByTheProvider(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"a time": "7", "no time": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			play(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) <= 3 {
					if header != "" {
						w.Header().Set("Retry-After", header)
					}
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				good(w, r)
			}, nil, func(w *world, g *gate) {
				t := w.t
				a := g.chat(hello)
				if a.err != nil || a.StatusCode != http.StatusOK || strings.TrimSpace(a.text) != fine {
					t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
				}
				if a.took < 7*time.Second || a.took > 30*time.Second || calls.Load() != 4 {
					t.Errorf("the answer came after %v and %d calls", a.took, calls.Load())
				}
				w.empty()
			}, fast())
		})
	}
}

// fast is a limit of ten calls a second.
func fast() reservations.Limit {
	return reservations.Limit{Name: "pool", Meters: []reservations.Meter{reservations.PerSecond("requests", 10)}}
}

// plenty is a limit that lets all calls of a test start.
func plenty() reservations.Limit {
	return reservations.Limit{Name: "pool", Meters: []reservations.Meter{reservations.PerSecond("requests", 10_000)}}
}

// While the store or Redis is away, calls are held, and start when it is back.
func TestServicesAway(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(w *world, g *gate, away bool){
		"store": func(w *world, _ *gate, away bool) { w.store.away.Store(away) },
		"Redis": func(_ *world, g *gate, away bool) {
			g.redis.Set(map[bool]network.State{true: network.Refuse, false: network.Up}[away])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, good, nil, func(w *world, g *gate) {
				t := w.t
				set(w, g, true)
				held := make([]<-chan reply, 3)
				for i := range held {
					held[i] = g.send(t.Context(), "/v1/chat/completions", hello)
				}
				wait(10 * time.Second)
				set(w, g, false)
				for _, one := range held {
					if a := <-one; a.err != nil || a.StatusCode != http.StatusOK || !strings.HasSuffix(a.text, fine) {
						t.Errorf("%v, %v: %q", a.err, a.Response, a.text)
					}
				}
				wait(time.Minute)
				w.empty()
			})
		})
	}
}

// What a caller sends can't reach beyond the routes, the limits and its own answer.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	play(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.URL.Path != "/v1/chat/completions" && !strings.HasPrefix(r.URL.Path, "/v1/models") || r.URL.RawQuery != "" {
			t.Errorf("the provider got %s", r.URL)
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "Headway") || name == "Cookie" || name == "X-Forwarded-For" ||
				name == "Proxy-Authorization" || name == "Upgrade" || name == "Http2-Settings" ||
				strings.Contains(strings.Join(r.Header[name], " "), "of-the-caller") {
				t.Errorf("the provider got %s: %s", name, r.Header[name])
			}
		}
		good(w, r)
	}, func(c *gateway.Config) { c.MaxBody = 10_000 }, func(w *world, g *gate) { hostileRequests(w.t, g, &seen) }, pool())
}

func hostileRequests(t *testing.T, g *gate, seen *atomic.Int64) {
	t.Helper()
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
	}{
		"a path of dots":           {path: "/v1/models/../chat/completions", body: hello, status: 404},
		"a packed path":            {path: "/v1/chat%2fcompletions", body: hello, status: 404},
		"another path":             {path: "/v1/assistants/..%2f..%2fadmin", body: hello, status: 404},
		"two slashes":              {path: "//v1/chat/completions", body: hello, status: 404},
		"a deployment of dots":     {path: "/openai/deployments/../chat/completions", body: hello, status: 404},
		"a deployment that is not": {path: "/openai/deployments/a%2f..%2fb/chat/completions", body: hello, status: 404},
		"a key in the query":       {path: "/v1/chat/completions?api_key=of-the-caller", body: hello, status: 400},
		"a model that is a path": {
			path: "/v1/chat/completions", body: strings.Replace(hello, `"m"`, `"../../admin"`, 1), status: 200,
		},
		"a field twice": {
			path: "/v1/chat/completions", body: `{"stream":false,"stream":true,` + hello[1:], status: 400,
		},
		"a model in capitals": {path: "/v1/chat/completions", body: `{"Model":"other",` + hello[1:], status: 400},
		"a field as Go reads it": {
			path: "/v1/chat/completions", body: "{\"max_completion_to\u212aens\":1000000," + hello[1:], status: 400,
		},
		"a model that is no text": {
			path: "/v1/chat/completions", body: strings.Replace(hello, `"m"`, `["m"]`, 1), status: 400,
		},
		"a packed body": {
			path: "/v1/chat/completions", body: hello, status: 415, header: []string{"Content-Encoding", "gzip"},
		},
		"two objects": {path: "/v1/chat/completions", body: hello + hello, status: 400},
		"no JSON":     {path: "/v1/chat/completions", body: `x`, status: 400},
		"no body":     {path: "/v1/chat/completions", status: 400},
		"too large":   {path: "/v1/chat/completions", body: hello + strings.Repeat(" ", 10_000), status: 413},
		"another protocol": {
			path: "/v1/chat/completions", body: hello, status: 400,
			header: []string{"Connection", "Upgrade", "Upgrade", "websocket"},
		},
		"an offer of HTTP/2": {
			path: "/v1/chat/completions", body: hello, status: 200,
			header: []string{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAoAA"},
		},
		"secrets in headers": {
			path: "/v1/chat/completions", body: hello, status: 200, header: []string{
				"Authorization", "Bearer of-the-caller", "Cookie", "a=of-the-caller", "Proxy-Authorization", "of-the-caller",
				"X-Forwarded-For", "1.2.3.4", "Headway-Start-By", "1h", "Connection", "X-Mine",
			},
		},
		"no form":   {path: "/v1/audio/transcriptions", body: hello, status: 400},
		"deep JSON": {path: "/v1/chat/completions", body: `{"a":` + strings.Repeat("[", 9000), status: 400},
		"a negative number": {
			path: "/v1/chat/completions", body: strings.Replace(hello, "100", "-1", 1), status: 400,
		},
	} {
		before := seen.Load()
		a := <-g.send(t.Context(), c.path, c.body, append([]string{"Content-Type", "application/json"}, c.header...)...)
		if a.err != nil {
			t.Fatalf("%s: %v", name, a.err)
		}
		status, text := a.StatusCode, a.text
		if status != c.status || (seen.Load() > before) != (c.status == http.StatusOK) {
			t.Errorf("%s: %d, want %d: %s", name, status, c.status, text)
		}
		if strings.Contains(text, "of-the-caller") || c.status != 200 && !strings.HasPrefix(text, `{"error":{`) {
			t.Errorf("%s: %s", name, text)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/v1/chat/completions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := g.transport()
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	transport.CloseIdleConnections()
	if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET: %v", res)
	}
	wait(time.Second) // for settlements
	v, err := g.limiter.View(t.Context(), "pool", "")
	if err != nil {
		t.Fatal(err)
	}
	if requests := math.Round(v.Meters[1].Level); requests != 7 {
		t.Errorf("%v requests are left, want 7", requests)
	}
}

// A caller that declares a body of a gigabyte is refused before it sends any of it.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/v1/chat/completions",
			io.LimitReader(zeros{}, 1<<30))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 1 << 30
		r.Header.Set("Expect", "100-continue")
		transport := g.transport()
		transport.ExpectContinueTimeout = time.Minute
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%v", res)
		}
		w.empty()
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A body that does not arrive is given up.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	for status, request := range map[string]string{
		"408": "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n",
		"421": "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n", // refused before its body is read
		"404": "POST /v1/none HTTP/1.1\r\nHost: localhost\r\n",
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			play(t, good, nil, func(w *world, g *gate) {
				t := w.t
				conn, err := g.wire.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				began := time.Now()
				_ = conn.SetReadDeadline(began.Add(time.Hour))
				_, _ = fmt.Fprint(conn, request+"Content-Length: 100\r\n\r\n{")
				text, err := io.ReadAll(conn)
				took := time.Since(began)
				if err != nil || took > 5*time.Minute || !strings.HasPrefix(string(text), "HTTP/1.1 "+status) {
					t.Errorf("after %v: %s%v", took, text, err)
				}
				w.empty()
			})
		})
	}
}

// Bodies that stop on their way take memory for what they declare, not for the largest one that may come: others with a
// large body are answered meanwhile.
func TestSlowLargeBodies(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		large := hello + strings.Repeat(" ", 300<<10)
		request := post(large)
		for range 50 {
			conn, err := g.wire.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, request[:len(request)-10])
		}
		wait(time.Second)
		if a := g.chat(large); a.err != nil || a.StatusCode != http.StatusOK || a.took > time.Second {
			t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
		}
		w.empty()
	}, fast())
}
