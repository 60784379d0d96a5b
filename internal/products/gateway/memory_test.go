package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/reservations"
)

// The bodies of calls that wait take a bounded memory together. A call whose body has no room is answered after a
// while, small ones start, and the room comes back.
func TestBodiesShareTheMemory(t *testing.T) {
	t.Parallel()
	const memory = 2 << 20
	large := hello + strings.Repeat(" ", 100<<10)
	bounded := func(c *gateway.Config) { c.Memory, c.MaxHold = memory, 100*time.Hour }
	for name, body := range map[string]string{"of known length": post(large), "in chunks": fmt.Sprintf(
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		len(large), large)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, good, bounded, func(w *world, g *gate) {
				t := w.t
				g.chat(hello)
				var held []io.Closer
				for range 2 * memory / len(large) { // the last ones have no room
					conn, err := g.wire.Dial(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = conn.Close() }()
					_, _ = io.WriteString(conn, body)
					held = append(held, conn)
					wait(100 * time.Millisecond)
				}
				wait(time.Minute)
				last, leave := context.WithCancel(t.Context())
				one := g.send(last, "/v1/chat/completions", large) // it needs less while it is read than one in chunks
				wait(time.Second)
				a := g.chat(large)
				if a.err != nil || a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" ||
					!strings.Contains(a.text, "gateway_full") || a.took > time.Minute {
					t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
				}
				if a = g.chat(hello, "Headway-Start-By", "1s"); a.err != nil || a.StatusCode != http.StatusTooManyRequests {
					t.Errorf("a small one: %v, %v after %v: %s", a.err, a.Response, a.took, a.text)
				}
				for _, conn := range held {
					_ = conn.Close()
				}
				leave()
				<-one
				if a = g.chat(large); a.err != nil || a.StatusCode != http.StatusOK {
					t.Errorf("later: %v, %v after %v: %s", a.err, a.Response, a.took, a.text)
				}
				w.empty()
			}, reservations.Limit{Name: "pool", Meters: []reservations.Meter{
				{Name: "requests", Rate: 1, Period: time.Hour, Capacity: 1},
			}})
		})
	}
}

// Bodies that stop on their way take memory for what has come of them, and no longer than that may take. Whatever they
// declare, a large call beside them starts at once.
func TestBodiesThatStopReturnTheMemory(t *testing.T) {
	t.Parallel()
	play(t, good, func(c *gateway.Config) { c.Memory = 2 << 20 }, func(w *world, g *gate) {
		t := w.t
		large := hello + strings.Repeat(" ", 300<<10)
		for _, declared := range []int{1 << 20, 30 << 20} {
			for range 100 {
				conn, err := g.wire.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
				_, _ = fmt.Fprintf(conn, "%s%d\r\n\r\n%s", head, declared, hello[:20])
			}
		}
		wait(time.Second)
		a := g.chat(hello + strings.Repeat(" ", 50<<10))
		if a.err != nil || a.StatusCode != http.StatusOK || a.took > time.Second {
			t.Errorf("beside them: %v, %v after %v: %s", a.err, a.Response, a.took, a.text)
		}
		for _, request := range []string{
			post(large)[:1000],
			"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n99999\r\n" + large,
		} {
			for range 10 {
				conn, err := g.wire.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, request)
			}
		}
		wait(4 * time.Minute)
		if a := g.chat(large); a.err != nil || a.StatusCode != http.StatusOK || a.took > time.Second {
			t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
		}
		w.empty()
	}, fast())
}
