package network

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe returns both ends of a connection in memory. Delay returns the time that the next write takes to arrive; nil
// means none. Writes arrive in order.
//
// Unlike net.Pipe, a connection has a buffer of any size, as TCP nearly has: a client that sends a pipeline and a
// server
// that answers its first command do not wait for each other. A write never waits, because its caller may hold a mutex,
// as go-redis's PubSub does. Time does not pass in a bubble while a goroutine waits for a mutex.
func pipe(delay func() time.Duration) (client, server net.Conn) {
	a, b := newStream(delay), newStream(delay)
	return &end{in: a, out: b}, &end{in: b, out: a}
}

// stream is one direction of a connection.
type stream struct {
	delay func() time.Duration

	mu       sync.Mutex // guards what is below
	queue    []segment
	closed   bool // by its writer: what is queued can still be read
	broken   bool // by its reader
	deadline time.Time
	changed  chan struct{} // holds one
}

// segment is one write.
type segment struct {
	at   time.Time // of its arrival; zero means at once
	data []byte
}

func newStream(delay func() time.Duration) *stream {
	return &stream{delay: delay, changed: make(chan struct{}, 1)}
}

// wake makes a reader look again.
func (s *stream) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// read copies what has arrived. Without data and error, wake is when to look again; a zero wake means after a change.
func (s *stream) read(b []byte) (n int, wake time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.broken:
		return 0, wake, io.ErrClosedPipe
	case !s.deadline.IsZero() && !now.Before(s.deadline):
		return 0, wake, os.ErrDeadlineExceeded
	case len(s.queue) > 0 && !s.queue[0].at.After(now):
		return s.take(b), wake, nil
	case len(s.queue) > 0:
		wake = s.queue[0].at
	case s.closed:
		return 0, wake, io.EOF
	}
	if !s.deadline.IsZero() && (wake.IsZero() || s.deadline.Before(wake)) {
		wake = s.deadline
	}
	return 0, wake, nil
}

// take moves the data of the first segment to b.
func (s *stream) take(b []byte) int {
	n := copy(b, s.queue[0].data)
	if s.queue[0].data = s.queue[0].data[n:]; len(s.queue[0].data) == 0 {
		s.queue[0] = segment{}
		s.queue = s.queue[1:]
	}
	return n
}

func (s *stream) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.broken {
		return io.ErrClosedPipe
	}
	var at time.Time
	if s.delay != nil {
		if d := s.delay(); d > 0 {
			at = time.Now().Add(d)
		}
	}
	if n := len(s.queue); n > 0 && s.queue[n-1].at.After(at) {
		at = s.queue[n-1].at
	}
	s.queue = append(s.queue, segment{at: at, data: append([]byte(nil), b...)})
	s.wake()
	return nil
}

// set changes the state of the stream.
func (s *stream) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.wake()
}

// end is one side of a connection. One goroutine at a time reads from it.
type end struct {
	in, out *stream
	timer   *time.Timer // of the read that waits
}

func (e *end) Read(b []byte) (int, error) {
	for {
		n, wake, err := e.in.read(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if wake.IsZero() {
			<-e.in.changed
			continue
		}
		if e.timer == nil {
			e.timer = time.NewTimer(time.Until(wake))
		} else {
			e.timer.Reset(time.Until(wake))
		}
		select {
		case <-e.in.changed:
		case <-e.timer.C:
		}
		e.timer.Stop()
	}
}

func (e *end) Write(b []byte) (int, error) {
	if err := e.out.write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (e *end) Close() error {
	e.out.set(func() { e.out.closed = true })
	e.in.set(func() { e.in.broken = true })
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.set(func() { e.in.deadline = t })
	return nil
}

func (e *end) SetDeadline(t time.Time) error  { return e.SetReadDeadline(t) }
func (*end) SetWriteDeadline(time.Time) error { return nil } // a write never waits
func (*end) LocalAddr() net.Addr              { return addr{} }
func (*end) RemoteAddr() net.Addr             { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }
