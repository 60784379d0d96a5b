package testenv_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/test/testenv"
)

// patience is how long a test waits for the proxy.
const patience = 5 * time.Minute

// silence is how long a test watches a paused connection for unexpected bytes.
const silence = 100 * time.Millisecond

func TestProxyPassesBytesBothWays(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, startEcho(t))
	c := connect(t, p)
	for _, line := range []string{"one\n", "two\n", strings.Repeat("x", 200_000) + "\n"} {
		send(t, c, line)
		if got := receive(t, c); got != line {
			t.Fatalf("echo of %d bytes: got %d bytes", len(line), len(got))
		}
	}
}

func TestProxyCutClosesConnectionsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, startEcho(t))
	old := connect(t, p)
	send(t, old, "hello\n")
	receive(t, old)

	p.Cut()
	p.Cut() // a second call has no effect
	expectGone(t, old)
	expectRefused(t, p)

	p.Restore()
	p.Restore()
	expectGone(t, old) // a cut connection stays closed
	fresh := connect(t, p)
	send(t, fresh, "again\n")
	if got := receive(t, fresh); got != "again\n" {
		t.Fatalf("after Restore: got %q", got)
	}
}

func TestProxyPauseHoldsBytesBackAndResumeLosesNone(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, startEcho(t))
	c := connect(t, p)
	send(t, c, "before\n")
	receive(t, c)

	p.Pause()
	p.Pause()
	send(t, c, "held\n")
	late := connect(t, p) // accepted, and silent too
	send(t, late, "late\n")
	expectSilence(t, c)
	expectSilence(t, late)

	p.Resume()
	p.Resume()
	if got := receive(t, c); got != "held\n" {
		t.Fatalf("after Resume: got %q", got)
	}
	if got := receive(t, late); got != "late\n" {
		t.Fatalf("after Resume, connected while paused: got %q", got)
	}
}

func TestProxyCutWhilePaused(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, startEcho(t))
	c := connect(t, p)
	send(t, c, "before\n")
	receive(t, c)
	p.Pause()
	send(t, c, "held\n")
	p.Cut()
	expectGone(t, c)
}

func TestProxyWithoutTarget(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, "127.0.0.1:1") // no server listens on tcpmux
	expectRefused(t, p)
}

func TestProxyEndsWithManyConnectionsOpen(t *testing.T) {
	t.Parallel()
	t.Run("inner", func(t *testing.T) { // goleak fails if its cleanup leaves goroutines
		t.Parallel()
		p := testenv.NewProxy(t, startEcho(t))
		var clients sync.WaitGroup
		for range 30 {
			c := connect(t, p)
			clients.Go(func() {
				if _, err := c.conn.Write([]byte("hi\n")); err != nil {
					t.Errorf("write: %v", err)
				}
				if _, err := c.lines.ReadString('\n'); err != nil {
					t.Errorf("read: %v", err)
				}
			})
		}
		clients.Wait()
	})
}

// client is one connection through the proxy.
type client struct {
	conn  net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, p *testenv.Proxy) *client {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", p.Addr())
	if err != nil {
		t.Fatalf("dial the proxy: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn: conn, lines: bufio.NewReader(conn)}
}

func send(t *testing.T, c *client, line string) {
	t.Helper()
	if _, err := io.WriteString(c.conn, line); err != nil {
		t.Fatalf("send: %v", err)
	}
}

func receive(t *testing.T, c *client) string {
	t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatalf("set deadline: %v", err)
	}
	line, err := c.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return line
}

// expectGone fails unless the proxy closes or resets the connection soon.
func expectGone(t *testing.T, c *client) {
	t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	switch b, err := c.lines.ReadByte(); {
	case err == nil:
		t.Fatalf("got byte %q on a connection that must be closed", b)
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.Fatal("the connection is still open")
	}
}

// expectRefused fails unless a new connection fails, at once or at its first read.
func expectRefused(t *testing.T, p *testenv.Proxy) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", p.Addr())
	if err != nil {
		return
	}
	t.Cleanup(func() { _ = conn.Close() })
	expectGone(t, &client{conn: conn, lines: bufio.NewReader(conn)})
}

// expectSilence fails unless the connection is open and silent.
func expectSilence(t *testing.T, c *client) {
	t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(silence))
	if b, err := c.lines.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("wanted silence, got byte %q, error %v", b, err)
	}
}

// startEcho answers each line with itself until the test ends.
func startEcho(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn) // ends with the connection
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}
