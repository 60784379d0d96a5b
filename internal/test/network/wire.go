package network

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Wire is the network between one process and a server. Its methods are safe for concurrent use.
type Wire struct {
	*Conditions

	serve func(net.Conn)

	mu    sync.Mutex // guards links
	links []*link    // in the order of their dials, so that a fault meets them in one order
}

// New returns a wire with these conditions. Serve is called with the server's end of each connection, and must return
// at once. After an answer of the server that is lost, its connection ends.
func New(conditions *Conditions, serve func(net.Conn)) *Wire {
	return &Wire{Conditions: conditions, serve: serve}
}

// Set changes the state.
func (w *Wire) Set(state State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Conditions.Set(state)
	w.links = slices.DeleteFunc(w.links, func(l *link) bool {
		switch {
		case state == Hang:
			l.hang()
		case state == Refuse || l.hangs():
			l.reset()
			return true
		}
		return false
	})
}

// Dial connects to the server; it is a Dialer of go-redis. The network and the address do not matter.
func (w *Wire) Dial(context.Context, string, string) (net.Conn, error) {
	switch w.State() {
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
		return w.Delay()
	})
	nowhere, _ := pipe(nil)
	l := &link{Conn: client, wire: w, nowhere: nowhere}
	w.mu.Lock()
	w.links = append(w.links, l)
	w.mu.Unlock()
	w.serve(&serverEnd{Conn: server, link: l})
	return l, nil
}

// link is the client's end of a connection.
type link struct {
	net.Conn

	wire    *Wire
	nowhere net.Conn // where a link that hangs writes to, and reads nothing from

	mu      sync.Mutex // guards what is below
	hung    bool
	greeted bool // an answer has arrived
	lost    bool // an answer was lost
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
	l.wire.links = slices.DeleteFunc(l.wire.links, func(other *link) bool { return other == l })
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

// Write sends an answer, or loses it: then the connection ends some time later, as a real one does. If the client saw
// the loss at once, and tried again at once, no time would pass. The first answer greets the client and is never lost:
// go-redis's PubSub waits for it while it holds a mutex.
func (s *serverEnd) Write(b []byte) (int, error) {
	switch s.link.fate() {
	case lost:
		time.AfterFunc(lostAfter, func() { _ = s.link.Close() })
		return len(b), nil
	case after:
		return len(b), nil
	case arrives:
	}
	return s.Conn.Write(b)
}

// lostAfter is the time after which a client sees that an answer is lost.
const lostAfter = 50 * time.Millisecond

// fate is what becomes of an answer.
type fate int

const (
	arrives fate = iota
	lost
	after // a lost answer
)

// fate draws what becomes of the next answer.
func (l *link) fate() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch first := !l.greeted; {
	case l.lost:
		return after
	case first:
		l.greeted = true
	case l.wire.Loses():
		l.lost = true
		return lost
	}
	return arrives
}
