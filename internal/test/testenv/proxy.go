package testenv

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// dialTimeout bounds how long a proxied connection waits for its target.
const dialTimeout = time.Minute

// Proxy is a TCP proxy on loopback between a client and one target. It makes the target unreachable (Cut, Restore) or
// silent (Pause, Resume), for its own clients only. All methods are safe for concurrent use, and each may be called
// twice in a row.
type Proxy struct {
	listener net.Listener
	target   string
	workers  sync.WaitGroup // the accept loop and all its goroutines

	mu    sync.Mutex // guards the fields below
	cut   bool
	links map[*link]struct{}
	flow  chan struct{} // closed while bytes may pass
}

// link is one client's connection and the connection to the target.
type link struct {
	client, target net.Conn
	gone           chan struct{}
	once           sync.Once
}

// NewProxy starts a proxy to target (host:port), which is closed when the test ends. The target need not be up yet:
// while it is down, the proxy closes the connections of clients.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testenv: listen for a proxy: %v", err)
	}
	p := &Proxy{listener: listener, target: target, links: make(map[*link]struct{}), flow: make(chan struct{})}
	close(p.flow)
	ctx, cancel := context.WithCancel(tb.Context())
	p.workers.Go(func() { p.accept(ctx) })
	tb.Cleanup(func() {
		cancel()
		_ = listener.Close() // ends the accept loop
		p.Cut()
		p.workers.Wait()
	})
	return p
}

// Addr is the host:port that clients connect to. It stays the same through Cut and Restore.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes every connection, and resets every new one until Restore. The proxy keeps its port, so that no other
// process takes it. So a client's connect may succeed, but then its first read or write fails.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for l := range p.links {
		l.close()
	}
	clear(p.links)
}

// Restore lets clients connect again. Connections that Cut closed stay closed.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Pause stops all bytes in both directions until Resume. Connections stay open and new ones are accepted. Bytes that
// a client sends after Pause has returned do not reach the target. Earlier bytes may.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow:
		p.flow = make(chan struct{})
	default: // the proxy is paused already
	}
}

// Resume passes on all bytes that Pause held back, in order.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow: // the proxy is not paused
	default:
		close(p.flow)
	}
}

// accept accepts connections until the listener closes.
func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.workers.Go(func() { p.serve(ctx, client) })
	}
}

// serve connects one client to the target and returns when either side has closed.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	dialer := net.Dialer{Timeout: dialTimeout}
	target, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, target: target, gone: make(chan struct{})}
	if !p.add(l) {
		l.close()
		return
	}
	p.workers.Go(func() { p.pump(l, client, target) })
	p.pump(l, target, client)
	p.remove(l)
}

// add registers a link. It returns false while the proxy is cut.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// pump copies bytes in one direction until a side closes, then closes both.
func (p *Proxy) pump(l *link, from, to net.Conn) {
	defer l.close()
	buf := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buf)
		if n > 0 {
			if !p.pass(l) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if readErr != nil {
			return
		}
	}
}

// pass waits while the proxy is paused. It returns false if the link is closed.
func (p *Proxy) pass(l *link) bool {
	p.mu.Lock()
	flow := p.flow
	p.mu.Unlock()
	select {
	case <-flow:
		return true
	case <-l.gone:
		return false
	}
}

// close resets both ends. It may be called more than once.
func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		reset(l.client)
		reset(l.target)
	})
}

// reset closes a connection at once, without TIME_WAIT.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
