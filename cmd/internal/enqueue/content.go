package enqueue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// content hashes a batch file, so that a copy with other line ends has the same hash: a byte order mark, the carriage
// return of a line end, and a missing line end at the end of the file do not count.
type content struct {
	hash  hash.Hash
	begun bool
	cr    bool // the last byte was a carriage return that is not hashed yet
	last  byte // that was hashed
}

func newContent() *content { return &content{hash: sha256.New()} }

// Write implements io.Writer. A byte order mark counts if it is not in one piece.
func (c *content) Write(p []byte) (int, error) {
	n := len(p)
	if !c.begun && n > 0 {
		c.begun = true
		p = bytes.TrimPrefix(p, []byte("\xef\xbb\xbf"))
	}
	if c.cr {
		p = append([]byte{'\r'}, p...)
	}
	if c.cr = bytes.HasSuffix(p, []byte{'\r'}); c.cr {
		p = p[:len(p)-1]
	}
	if p = bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")); len(p) > 0 {
		c.hash.Write(p) // a hash takes all
		c.last = p[len(p)-1]
	}
	return n, nil
}

// sum returns the hash. Nothing may be written after it.
func (c *content) sum() string {
	if c.last != '\n' {
		c.hash.Write([]byte{'\n'})
	}
	return hex.EncodeToString(c.hash.Sum(nil))
}
