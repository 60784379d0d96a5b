package gateway_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
)

// A caller that is held takes at most 24 kB of heap. The gateway has 18 kB of it, of which 10 kB are the buffers of
// net/http. The rest is in the Redis and the network of the test.
//
//nolint:paralleltest // other tests would count
func TestHeldCallersAreSmall(t *testing.T) {
	const callers, most = 500, 24_000
	play(t, good, func(c *gateway.Config) { c.MaxHold = 100 * time.Hour }, func(w *world, g *gate) {
		g.chat(hello)
		wait(time.Second)
		waiting := g.send(w.t.Context(), "/v1/chat/completions", hello) // so that Redis knows its scripts
		wait(time.Second)
		before := heap()
		conns := make([]net.Conn, callers)
		for i := range conns {
			var err error
			if conns[i], err = g.wire.Dial(context.Background(), "tcp", "127.0.0.1:80"); err != nil {
				w.t.Fatal(err)
			}
			fmt.Fprintf(conns[i], "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
				len(hello), hello)
		}
		wait(5 * time.Second)
		each := float64(heap()-before) / callers
		w.t.Logf("%.1f kB a caller", each/1000)
		if each > most {
			w.t.Errorf("a caller takes %.0f bytes, more than %d", each, most)
		}
		<-waiting
		for _, c := range conns {
			_ = c.Close()
		}
		wait(time.Minute)
		w.empty()
	}, slow())
}

// heap is how many bytes are live.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
