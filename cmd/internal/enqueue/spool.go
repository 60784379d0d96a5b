package enqueue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/headway-go/headway/internal/setup/cli"
)

// standardInput is the name of a batch that was read from there.
const standardInput = "standard input"

// blockSize is how much of a batch file is read, and compared, at once.
const blockSize = 1 << 20

// errChanged is a file that is not what it was when it was checked.
var errChanged = errors.New("the file was changed after it had been checked; what was sent is what was checked, " +
	"`headway cancel` takes it back")

// input is a batch file that is read twice: once to check it, once to enqueue it. What the second reading gives is what
// the first one gave, block by block, or errChanged: a line that was not checked is never given. What was added to the
// file since is left out.
type input struct {
	ctx   context.Context //nolint:containedctx // of the command that reads
	file  *os.File
	from  io.Reader           // The file; the second time as long as it was at first.
	size  int64               // Of the first reading so far.
	sums  [][sha256.Size]byte // Of its blocks.
	next  int                 // Number of the block that is read next.
	again bool

	block, left []byte // left is what was not given of it
}

// open opens a batch file. What can be read once only, a pipe or standard input ("-"), goes through a temporary file,
// so that memory stays small. Close the file: that removes a temporary one.
func open(ctx context.Context, name string, stdin io.Reader) (*input, error) {
	info, err := os.Stat(name)
	var file *os.File
	switch {
	case name == "-":
		file, err = spool(ctx, func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil })
	case err == nil && info.IsDir():
		err = cli.Usage("%s is a folder", name)
	case err == nil && !info.Mode().IsRegular():
		//nolint:gosec // the user names the file
		file, err = spool(ctx, func() (io.ReadCloser, error) { return os.Open(name) })
	default:
		if file, err = os.Open(name); err != nil { //nolint:gosec // the user names the file
			err = &cli.UsageError{Err: err}
		}
	}
	if err != nil {
		return nil, err
	}
	return &input{ctx: ctx, file: file, from: file, block: make([]byte, blockSize)}, nil
}

// spool copies what can be read once to a file without a name: nothing is left of it, however the command ends.
func spool(ctx context.Context, source func() (io.ReadCloser, error)) (*os.File, error) {
	f, err := os.CreateTemp("", "headway-batch-*.jsonl")
	if err != nil {
		return nil, err
	}
	copied := make(chan error, 1)
	go func() { // ends with the source, or with the process: a read from a terminal can't be interrupted
		in, failed := source()
		if failed == nil {
			_, failed = io.Copy(f, in)
			failed = errors.Join(failed, in.Close())
		}
		copied <- failed
	}()
	if err = os.Remove(f.Name()); err == nil {
		select {
		case err = <-copied:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the requests: %w", err), f.Close())
	}
	return f, nil
}

// rewind begins the second reading, or another one.
func (f *input) rewind() {
	f.next, f.again, f.left = 0, true, nil
	f.from = io.NewSectionReader(f.file, 0, f.size)
}

// Read implements io.Reader.
func (f *input) Read(p []byte) (int, error) {
	if len(f.left) == 0 {
		if err := f.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

// fill reads the next block.
func (f *input) fill() error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	n, err := io.ReadFull(f.from, f.block)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	sum := sha256.Sum256(f.block[:n])
	switch {
	case f.next == len(f.sums) && n == 0:
		return io.EOF
	case !f.again:
		f.sums, f.size = append(f.sums, sum), f.size+int64(n)
	case sum != f.sums[f.next]:
		return errChanged
	}
	f.next++
	f.left = f.block[:n]
	return nil
}

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
