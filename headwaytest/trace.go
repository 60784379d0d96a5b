package headwaytest

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// traceFile is the variable of the environment with the file that gets the trace.
const traceFile = "HEADWAY_TRACE"

// lineShown is the most bytes that a line of the trace shows. A hash stands for the others.
const lineShown = 500

// trace writes what happens in a fleet, in order, with the time since the fleet began. Each line is one of these: a
// command that reaches Redis, an answer of the store, a call that reaches a provider, an event of a worker. The methods
// of nil do nothing.
type trace struct {
	mu    sync.Mutex // guards what is below
	began time.Time
	file  *os.File
	lines *bufio.Writer
}

// newTrace returns a trace, nil if none is wanted. It adds to the file.
func newTrace() (*trace, error) {
	path := os.Getenv(traceFile)
	if path == "" {
		return nil, nil //nolint:nilnil // its methods do nothing
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("open the file of %s: %w", traceFile, err)
	}
	return &trace{file: file, lines: bufio.NewWriter(file)}, nil
}

// begin begins the trace of the fleet of a test.
func (tr *trace) begin(name string, began time.Time) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	tr.began = began
	tr.mu.Unlock()
	tr.add("fleet", name, "")
}

// add adds a line. By is the process.
func (tr *trace) add(kind, by, format string, values ...any) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	line := fmt.Sprintf("%.9f %s %s: ", time.Since(tr.began).Seconds(), kind, by) + fmt.Sprintf(format, values...)
	if more := len(line) - lineShown; more > 0 {
		all := fnv.New64a()
		_, _ = all.Write([]byte(line)) // never fails
		line = fmt.Sprintf("%s... and %d bytes, all %x", line[:lineShown], more, all.Sum64())
	}
	_, _ = fmt.Fprintln(tr.lines, strings.ToValidUTF8(escape.Replace(line), "?")) // close reports its failure
}

// escape keeps a line one.
var escape = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\x00", `\0`) //nolint:gochecknoglobals // a constant

// close ends the trace. It fails the test if a part is not written.
func (tr *trace) close(t *testing.T) {
	t.Helper()
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err := errors.Join(tr.lines.Flush(), tr.file.Close()); err != nil {
		t.Errorf("headwaytest: write the trace: %v", err)
	}
}

// redis returns how Redis serves the connections of a process.
func (tr *trace) redis(by string, serve func(net.Conn)) func(net.Conn) {
	if tr == nil {
		return serve
	}
	return func(c net.Conn) { serve(&tracedConn{Conn: c, trace: tr, by: by}) }
}

// tracedConn is Redis's end of a connection.
type tracedConn struct {
	net.Conn

	trace *trace
	by    string
}

func (c *tracedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.trace.add("redis", c.by, "%s", commands(string(b[:n])))
	}
	return n, err //nolint:wrapcheck // a connection
}

// commands shows commands as they are written, without the lengths of RESP.
func commands(text string) string {
	var shown strings.Builder
	for part := range strings.SplitSeq(text, "\r\n") {
		switch {
		case part == "", part[0] == '$':
		case part[0] == '*':
			shown.WriteString("|")
		default:
			shown.WriteString(" " + part)
		}
	}
	return strings.TrimPrefix(shown.String(), "| ")
}

// change adds what the store made of requests.
func (tr *trace) change(by, limit, key string, change reservations.Change, err error) {
	c, ok := change.(*bucket.Change)
	if tr == nil || !ok {
		return
	}
	var answers []string
	for _, a := range c.Answers {
		answers = append(answers, fmt.Sprintf("%s hold %v wait %v", a.State, a.Hold, a.Wait()))
	}
	name := bucket.Name(limit, key)
	tr.add("store", by, "%s: %q, version %d, %v, for %+v", name, answers, c.Bucket.Version, err, c.Requests)
}

// event adds an event of a worker.
func (tr *trace) event(by string, e worker.Event) {
	tr.add("event", by, "%s %s: %v", e.Kind, e.Task.ID, e.Err)
}
