// Package memhttp gives tests an HTTP server without a socket. It works in testing/synctest bubbles.
package memhttp

import (
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/test/network"
)

// URL is the address of each server. Its clients dial it whatever the address.
const URL = "http://127.0.0.1:80"

// Start serves handle until the test ends, and returns a client of it. The client follows no redirects, as the clients
// of package llm by default.
func Start(tb testing.TB, handle http.Handler) *http.Client {
	tb.Helper()
	l := &listener{conns: make(chan net.Conn), ended: make(chan struct{})}
	wire := network.New(network.NewConditions(0, 0, 0, 0), func(c net.Conn) {
		go func() {
			select {
			case l.conns <- c:
			case <-l.ended:
				_ = c.Close()
			}
		}()
	})
	server := &http.Server{Handler: handle} //nolint:gosec // the callers are tests
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until the end
	}()
	transport, ok := intake.Transport().(*http.Transport)
	if !ok {
		tb.Fatal("a test has replaced http.DefaultTransport")
	}
	transport.Proxy, transport.DialContext = nil, wire.Dial
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
	last := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: last}
}

// listener accepts the server's ends of connections.
type listener struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
