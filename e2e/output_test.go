package e2e_test

import (
	"bytes"
	"sync"
)

// output stores the output of a process, and closes first when the first line is complete.
type output struct {
	first chan struct{} // closed with the first line

	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
	seen bool
}

func newOutput() *output { return &output{first: make(chan struct{})} }

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.seen && bytes.IndexByte(b, '\n') >= 0 {
		o.seen = true
		close(o.first)
	}
	return o.text.Write(b)
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
