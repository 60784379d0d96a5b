package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
)

// pipe connects to a host without any buffer: a write waits until it is read.
func (h *host) pipe() net.Conn {
	client, server := net.Pipe()
	h.conns <- server
	return client
}

// post is a request as it is sent.
func post(body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

// slowReader is a caller that reads slowly.
type slowReader struct {
	pace  time.Duration // of a byte; zero reads nothing
	begun bool          // the provider streams nothing yet but headers
	kind  string        // of the answer; the headers of a stream are read at once
}

func (s slowReader) read(from net.Conn) {
	one := make([]byte, 1)
	for head := ""; s.kind == isStream && !strings.HasSuffix(head, "\r\n\r\n"); head += string(one) {
		if _, err := from.Read(one); err != nil {
			return
		}
	}
	for ; s.pace > 0; <-time.After(s.pace) { //gate:ok called in a bubble
		if _, err := from.Read(one); err != nil {
			return
		}
	}
}

// A caller that does not read its answer is cut off after 30 s, and so is its call. The gateway holds a bounded part of
// the answer, and others are served meanwhile.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const readers, size, most = 200, 1 << 20, 128 << 10
	for name, c := range map[string]slowReader{
		"reads nothing":                     {kind: isJSON},
		"reads a byte a second":             {kind: isJSON, pace: time.Second},
		"reads no headers":                  {begun: true},
		"reads the headers of a stream":     {kind: isStream},
		"reads a byte a second of a stream": {kind: isStream, pace: time.Second},
		"reads a byte a minute of a stream": {kind: isStream, pace: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var running, sent atomic.Int64 // calls of the provider; bytes that it could write for slow readers
			provider := func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				slow := strings.Contains(string(body), `"slow"`)
				running.Add(1)
				defer running.Add(-1)
				if slow && c.begun {
					w.Header().Set("Content-Type", isStream)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return
				}
				part := make([]byte, 1<<10)
				if w.Header().Set("Content-Type", isJSON); slow && c.kind == isStream {
					w.Header().Set("Content-Type", isStream)
					copy(part, bytes.Repeat([]byte("data: {}\n\n"), 1+len(part)/10))
					_ = http.NewResponseController(w).Flush()
					// The proxy flushes headers beside the first write, which a bubble does not see.
					<-time.After(time.Second) //gate:ok called in a bubble
				} else {
					w.Header().Set("Content-Length", strconv.Itoa(size))
				}
				for n := 0; n < size; n += len(part) {
					if _, err := w.Write(part); err != nil {
						return
					}
					if slow {
						sent.Add(1 << 10)
					}
				}
			}
			play(t, provider, nil, func(w *world, _ *gate) {
				t := w.t
				calls := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					return w.provider.pipe(), nil
				}}
				defer calls.CloseIdleConnections()
				g := w.newGate(func(c *gateway.Config) { c.Transport = calls })
				body := strings.Replace(hello, `"m"`, `"slow"`, 1)
				for range readers {
					conn := g.pipe()
					defer func() { _ = conn.Close() }()
					_, _ = io.WriteString(conn, post(body))
					go c.read(conn)
				}
				wait(20 * time.Second)
				if got := running.Load(); got != readers {
					t.Errorf("%d calls run, want %d", got, readers)
				}
				if a := g.chat(hello); a.err != nil || len(a.text) != size || a.took > time.Second {
					t.Errorf("%v, %v after %v: %d bytes", a.err, a.Response, a.took, len(a.text))
				}
				wait(20 * time.Second)
				if got := running.Load(); got != 0 {
					t.Errorf("%d calls still run", got)
				}
				if each := sent.Load() / readers; each > most {
					t.Errorf("the gateway took %d bytes of an answer that is not read", each)
				}
				w.empty()
				wait(2 * c.pace) // readers see that they are cut off
			}, plenty())
		})
	}
}

// Requests that come in one write are answered one after another, each with its own answer.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	const requests = 50
	play(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, isJSON, string(body))
	}, nil, func(w *world, g *gate) {
		t := w.t
		conn, err := g.wire.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		var all strings.Builder
		bodies := make([]string, requests)
		for i := range bodies {
			bodies[i] = strings.Replace(hello, `"m"`, fmt.Sprintf(`"m%d"`, i), 1)
			all.WriteString(post(bodies[i]))
		}
		_, _ = io.WriteString(conn, all.String())
		reader := bufio.NewReader(conn)
		for i, want := range bodies {
			res, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatalf("answer %d: %v", i, err)
			}
			text, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK || string(text) != want {
				t.Errorf("answer %d: %v, %v: %s", i, err, res, text)
			}
		}
		w.empty()
	}, plenty())
}

// A caller that goes away with a second request behind the one that waits leaves with the next sign of life: the server
// reads no further meanwhile.
func TestPipelinedCallerGoesAway(t *testing.T) {
	t.Parallel()
	play(t, good, nil, func(w *world, g *gate) {
		t := w.t
		g.chat(hello)
		conn, err := g.wire.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, post(hello)+post(hello))
		wait(time.Second)
		_ = conn.Close()
		if a := g.chat(hello); a.err != nil || a.StatusCode != http.StatusOK || a.took > 20*time.Second {
			t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
		}
		w.empty()
	})
}

// Callers that wait and go away at once leave nothing, and the next call gets the turn of the first of them.
func TestManyCallersGoAwayAtOnce(t *testing.T) {
	t.Parallel()
	callers := 10_000
	if testing.Short() {
		callers = 1_000
	}
	play(t, good, func(c *gateway.Config) { c.MaxHold = 100 * time.Hour }, func(w *world, g *gate) {
		t := w.t
		g.chat(hello)
		conns := make([]net.Conn, callers)
		for i := range conns {
			var err error
			if conns[i], err = g.wire.Dial(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conns[i], post(hello))
		}
		wait(5 * time.Second)
		for _, c := range conns {
			_ = c.Close()
		}
		if a := g.chat(hello); a.err != nil || a.StatusCode != http.StatusOK || a.took > 20*time.Second {
			t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
		}
		w.empty()
	})
}
