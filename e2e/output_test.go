package e2e_test

import (
	"bytes"
	"sync"
)

// output keeps what a process writes and tells when its first line is complete.
type output struct {
	first chan struct{} // closed with the first line

	mu   sync.Mutex // guards what is below
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

// String is all that was written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
