package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/test/network"
)

// What no client sends ends at the gateway, or is one call with one body. A provider, or a proxy on the way, that reads
// it otherwise sees no second request. Nothing of it is in the log.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	var log bytes.Buffer
	play(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
		if r.ContentLength != int64(len(body)) || len(r.TransferEncoding) > 0 || r.Header.Get("X-Injected") != "" {
			t.Errorf("the provider got %d bytes, %v, %v", r.ContentLength, r.TransferEncoding, r.Header)
		}
		answer(w, isJSON, fine)
	}, func(c *gateway.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, func(w *world, g *gate) {
		t := w.t
		length := fmt.Sprintf("Content-Length: %d\r\n", len(hello))
		chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hello), hello)
		for name, c := range map[string]struct {
			headers, body string
			status        int
		}{
			"two lengths":       {headers: "Content-Length: 5\r\n" + length, body: hello, status: 400},
			"a list of lengths": {headers: "Content-Length: 5, 6\r\n", body: hello, status: 400},
			"a signed length":   {headers: "Content-Length: +5\r\n", body: hello, status: 400},
			"chunks and a length": {
				headers: "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", body: chunked, status: 200,
			},
			"another encoding":       {headers: "Transfer-Encoding: gzip, chunked\r\n", body: chunked, status: 501},
			"a space before a colon": {headers: "X-Injected : 1\r\n" + length, body: hello, status: 400},
			"a line feed in a name":  {headers: "X-A\nX-Injected: 1\r\n" + length, body: hello, status: 400},
			"a carriage return":      {headers: "X-A: a\rX-Injected: 1\r\n" + length, body: hello, status: 400},
			"a null in a value":      {headers: "X-A: a\x00b\r\n" + length, body: hello, status: 400},
			"a second host":          {headers: "Host: other\r\n" + length, body: hello, status: 400},
			"a good one":             {headers: length, body: hello, status: 200},
		} {
			conn, err := g.wire.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
				"Authorization: Bearer hw_of-the-caller\r\n"+c.headers+"\r\n"+c.body)
			text, _ := io.ReadAll(conn)
			_ = conn.Close()
			if !strings.HasPrefix(string(text), fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
				t.Errorf("%s: %.200s", name, text)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(bodies) != 2 || bodies[0] != hello || bodies[1] != hello {
			t.Errorf("the provider got %q", bodies)
		}
		if text := log.String(); strings.Contains(text, "of-the-caller") || strings.Contains(text, providerKey) {
			t.Error(text)
		}
		w.empty()
	}, fast())
}

// The callers of a gateway that is killed leave the waitlists within some seconds, and nothing stays charged for them.
func TestKilledWithHeldCallers(t *testing.T) {
	t.Parallel()
	patient := func(c *gateway.Config) { c.MaxHold = 10 * time.Hour }
	play(t, good, patient, func(w *world, g *gate) {
		t := w.t
		other := w.newGate(patient)
		g.chat(hello)
		held := make([]<-chan reply, 100)
		for i := range held {
			held[i] = g.send(t.Context(), "/v1/chat/completions", hello)
		}
		wait(time.Second)
		g.redis.Set(network.Refuse)
		g.wire.Set(network.Refuse)
		for _, one := range held {
			if a := <-one; a.err == nil {
				t.Errorf("%v: %s", a.Response, a.text)
			}
		}
		wait(30 * time.Second)
		w.gates[0], w.gates[1] = w.gates[1], w.gates[0]
		w.empty()
		if a := other.chat(hello); a.err != nil || a.StatusCode != http.StatusOK || a.took > time.Second {
			t.Errorf("after %v: %v, %v: %s", a.took, a.err, a.Response, a.text)
		}
		g.redis.Set(network.Up)
	})
}
