package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// idler is a kind of connection that sends no whole request, or no second one.
type idler struct {
	first, again string        // what it sends at once, and then again and again.
	every        time.Duration // between two times of again.
	cut          time.Duration // when the gateway closes it, as documented.
	answer       string        // the status of the answer before that; empty without an answer
}

func idlers() map[string]idler {
	const headers, idle = 10 * time.Second, 2 * time.Minute
	const body, chunks = 30 * time.Second, 150 * time.Second
	post := "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", 1<<20)
	return map[string]idler{
		"nothing":                  {cut: headers},
		"a header byte a second":   {first: post + "X-Slow: ", again: "a", every: time.Second, cut: headers},
		"a part of a body":         {first: post + length + hello[:20], cut: body, answer: "408"},
		"a body byte in 5 seconds": {first: post + length, again: "a", every: 5 * time.Second, cut: body, answer: "408"},
		"chunks without an end": {
			first: post + "Transfer-Encoding: chunked\r\n\r\n", again: "1\r\na\r\n", every: 5 * time.Second, cut: chunks,
			answer: "408",
		},
		"one request": {first: "GET /v1/none HTTP/1.1\r\nHost: localhost\r\n\r\n", cut: idle, answer: "404"},
	}
}

// play sends what the connection sends, and returns what came until the end, and after what time that was.
func (i idler) play(conn net.Conn) (text string, took time.Duration) {
	defer func() { _ = conn.Close() }()
	began := time.Now()
	var err error
	if i.first != "" {
		_, err = io.WriteString(conn, i.first)
	}
	if i.every > 0 {
		go func() {
			for err == nil {
				<-time.After(i.every) //gate:ok called in a bubble
				_, err = io.WriteString(conn, i.again)
			}
		}()
	}
	all, _ := io.ReadAll(conn)
	return string(all), time.Since(began) //gate:ok called in a bubble
}

// 10 000 connections that stay idle, or send their request too slowly, are closed in the documented time. Meanwhile a
// call is answered at once. Each connection takes at most 32 kB of heap, and leaves nothing.
//
//nolint:paralleltest // other tests would count
func TestIdleConnections(t *testing.T) {
	const most = 32_000
	connections := 10_000
	if testing.Short() {
		connections = 2_000
	}
	for name, kind := range idlers() {
		t.Run(name, func(t *testing.T) {
			play(t, good, nil, func(w *world, g *gate) {
				t := w.t
				ask := func() {
					if a := g.chat(hello); a.err != nil || a.StatusCode != http.StatusOK || a.took > time.Second {
						t.Errorf("%v, %v after %v: %s", a.err, a.Response, a.took, a.text)
					}
				}
				ask() // so that Redis knows its scripts
				wait(time.Second)
				before, goroutines := heap(), runtime.NumGoroutine()
				texts, times := make([]string, connections), make([]time.Duration, connections)
				for i := range connections {
					conn, err := g.wire.Dial(context.Background(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					go func() { texts[i], times[i] = kind.play(conn) }()
				}
				wait(6 * time.Second)
				each := float64(heap()-before) / float64(connections)
				t.Logf("%.1f kB a connection", each/1000)
				if each > most {
					t.Errorf("a connection takes %.0f bytes, more than %d", each, most)
				}
				ask()
				wait(kind.cut - 6*time.Second - time.Second)
				ask()
				wait(7 * time.Second)
				for i, text := range texts {
					answered := kind.answer != "" && strings.HasPrefix(text, "HTTP/1.1 "+kind.answer)
					late := times[i] - kind.cut
					if late < -10*time.Millisecond || late > 2*time.Second || !answered && text != kind.answer {
						t.Errorf("closed after %v: %q", times[i], text)
						break
					}
				}
				if more := runtime.NumGoroutine() - goroutines; more > 20 {
					t.Errorf("%d goroutines are left", more)
				}
				w.empty()
			}, fast())
		})
	}
}
