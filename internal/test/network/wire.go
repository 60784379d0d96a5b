package network

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// State is what a [Wire] does with connections.
type State int

const (
	// Up delivers what is written.
	Up State = iota
	// Refuse resets all connections, and refuses new ones.
	Refuse
	// Hang delivers nothing. A dial fails at once, as if its timeout had passed: go-redis's PubSub dials while it holds a
	// mutex. When the state ends, all connections that hung are reset.
	Hang
)

// Wire is the network between one process and a server. Its methods are safe for concurrent use.
type Wire struct {
	serve func(net.Conn)

	mu     sync.Mutex // guards what is below
	random *rand.Rand
	state  State
	least  time.Duration // of the delay of a write
	most   time.Duration
	more   time.Duration // added to each delay
	lose   float64       // the share of the writes that reset their connection instead
	links  map[*link]struct{}
}

// New returns a wire that is up and has no delays. Serve is called with the server's end of each connection, and must
// return at once. Seed is that of the delays.
func New(seed uint64, serve func(net.Conn)) *Wire {
	return &Wire{
		serve: serve, random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // tests repeat it
		links: map[*link]struct{}{},
	}
}

// Delay makes each write arrive after a random time from least to most.
func (w *Wire) Delay(least, most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.least, w.most = least, most
}

// Slow adds a time to each delay. Zero ends that.
func (w *Wire) Slow(more time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.more = more
}

// Lose makes a share of the writes of the server, from 0 to 1, reset their connection: the client does not know what
// became of its commands.
func (w *Wire) Lose(share float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = share
}

// Set changes the state.
func (w *Wire) Set(state State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	for l := range w.links {
		switch {
		case state == Hang:
			l.hang()
		case state == Refuse || l.hangs():
			delete(w.links, l)
			l.reset()
		}
	}
}

// delay returns the time that the next write takes.
func (w *Wire) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.least + w.more
	if w.most > w.least {
		d += time.Duration(w.random.Int64N(int64(w.most - w.least)))
	}
	return d
}

// loses draws whether a write of the server is lost.
func (w *Wire) loses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lose > 0 && w.random.Float64() < w.lose
}

// Dial connects to the server; it is a Dialer of go-redis. The network and the address do not matter.
func (w *Wire) Dial(context.Context, string, string) (net.Conn, error) {
	w.mu.Lock()
	state := w.state
	w.mu.Unlock()
	switch state {
	case Refuse:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	case Hang:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: os.ErrDeadlineExceeded}
	case Up:
	}
	dialed := time.Now()
	client, server := pipe(func() time.Duration {
		if time.Now().Equal(dialed) { // go-redis's PubSub greets the server while it holds a mutex
			return 0
		}
		return w.delay()
	})
	nowhere, _ := pipe(nil)
	l := &link{Conn: client, wire: w, nowhere: nowhere}
	w.mu.Lock()
	w.links[l] = struct{}{}
	w.mu.Unlock()
	w.serve(&serverEnd{Conn: server, link: l})
	return l, nil
}

// link is the client's end of a connection.
type link struct {
	net.Conn

	wire    *Wire
	nowhere net.Conn // where a link that hangs writes to, and reads nothing from

	mu   sync.Mutex // guards hung
	hung bool
}

func (l *link) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hung = true
}

func (l *link) hangs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung
}

// reset closes the connection, for its client and its server.
func (l *link) reset() {
	_ = l.nowhere.Close()
	_ = l.Conn.Close()
}

func (l *link) Write(b []byte) (int, error) {
	if l.hangs() {
		return l.nowhere.Write(b)
	}
	return l.Conn.Write(b)
}

// Read discards what arrives while the link hangs.
func (l *link) Read(b []byte) (int, error) {
	if !l.hangs() {
		n, err := l.Conn.Read(b)
		if !l.hangs() {
			return n, err
		}
	}
	return l.nowhere.Read(b)
}

func (l *link) Close() error {
	l.wire.mu.Lock()
	delete(l.wire.links, l)
	l.wire.mu.Unlock()
	l.reset()
	return nil
}

func (l *link) SetReadDeadline(t time.Time) error {
	_ = l.nowhere.SetReadDeadline(t)
	return l.Conn.SetReadDeadline(t)
}

func (l *link) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

// serverEnd is the server's end of a connection.
type serverEnd struct {
	net.Conn

	link *link
}

func (s *serverEnd) Write(b []byte) (int, error) {
	if s.link.wire.loses() {
		_ = s.link.Close()
	}
	return s.Conn.Write(b)
}
