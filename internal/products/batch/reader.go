package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/headway-go/headway/internal/text/filekind"
)

// MaxLineDefault is the longest line a [Reader] accepts by default: 10 MB.
const MaxLineDefault = 10_000_000

// Config bounds the lines that a [Reader] accepts.
type Config struct {
	// MaxLine is the longest line, in bytes without its line break. Zero and below mean [MaxLineDefault].
	MaxLine int

	// Unique is true if the file was read before and has no duplicate custom_id. The Reader then stores no
	// custom_ids.
	Unique bool
}

// Reader reads the lines of a batch file. It is not safe for concurrent use.
type Reader struct {
	in      *bufio.Reader
	maxLine int
	number  int
	buf     []byte
	ids     map[[12]byte]uint32 // a hash of each custom_id, and its line; nil with Config.Unique
	ended   error               // io.EOF, or the error of reading
}

// NewReader returns a Reader of a file. A byte order mark at its beginning, blank lines and line breaks of any system
// are accepted.
func NewReader(r io.Reader, cfg Config) *Reader {
	if cfg.MaxLine <= 0 {
		cfg.MaxLine = MaxLineDefault
	}
	reader := &Reader{in: bufio.NewReaderSize(r, 64<<10), maxLine: cfg.MaxLine}
	if !cfg.Unique {
		reader.ids = map[[12]byte]uint32{}
	}
	return reader
}

// Next returns the next line. A [*LineError] means that this line is invalid; call Next again for the line after it.
// Any other error is final: io.EOF at the end of the file (at once for a file without lines, see [ErrEmpty]), or the
// error of reading. The line belongs to the caller.
func (r *Reader) Next() (Line, error) {
	if r.number == 0 {
		if fault := r.kind(); fault != nil {
			r.number, r.ended = 1, io.EOF
			return Line{}, fault
		}
	}
	for r.ended == nil {
		text, err := r.readLine()
		if fault, ok := errors.AsType[*LineError](err); ok {
			return Line{}, fault
		}
		if err != nil {
			break
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		return r.accept(text)
	}
	return Line{}, r.ended
}

// headBytes is how many bytes say what a file is.
const headBytes = 16

// kind returns the fault of a file that is packed or of another encoding, or nil. It is one fault, of the first line.
func (r *Reader) kind() error {
	head, _ := r.in.Peek(headBytes) // the error comes again with the first line
	kind := filekind.Of(head)
	if kind.Name == "" {
		return nil
	}
	return &LineError{Line: 1, Err: fmt.Errorf("%w: the file is %s: %s", ErrUTF8, kind.Name, kind.Advice)}
}

// accept parses a line that is not blank, and stores its custom_id if the line is valid.
func (r *Reader) accept(text []byte) (Line, error) {
	line, err := Parse(r.number, text, r.ended != nil)
	if err != nil || r.ids == nil {
		return line, err
	}
	sum := sha256.Sum256([]byte(line.CustomID))
	key := [12]byte(sum[:])
	if first, taken := r.ids[key]; taken {
		return Line{}, &LineError{
			Line:  r.number,
			Field: "custom_id",
			Err:   fmt.Errorf("%w: line %d has %q too", ErrDuplicateID, first, shorten(line.CustomID)),
		}
	}
	r.ids[key] = uint32(r.number) //nolint:gosec // files have fewer lines
	return line, nil
}

// readLine returns the text of one line, valid until the next call. It sets r.ended if the file ends with this line.
// It reads a line that is too long to its end, and drops it.
func (r *Reader) readLine() ([]byte, error) {
	r.buf = r.buf[:0]
	r.number++
	length := 0
	for {
		piece, err := r.in.ReadSlice('\n')
		length += len(piece)
		if len(r.buf) <= r.maxLine+lineBreak {
			r.buf = append(r.buf, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			r.ended = io.EOF
			if !errors.Is(err, io.EOF) {
				r.ended = fmt.Errorf("batch: read line %d: %w", r.number, err)
				return nil, r.ended
			}
			if length == 0 {
				return nil, r.ended
			}
		}
		break
	}
	text := r.buf
	if r.number == 1 {
		cut := bytes.TrimPrefix(text, []byte("\ufeff"))
		length -= len(text) - len(cut)
		text = cut
	}
	cut := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	length -= len(text) - len(cut)
	if length > r.maxLine {
		return nil, &LineError{
			Line: r.number,
			Err:  fmt.Errorf("line is %w: %d bytes, at most %d", ErrTooLong, length, r.maxLine),
		}
	}
	return cut, nil
}

// lineBreak is the length of a byte order mark and a line break of two bytes, beyond the line.
const lineBreak = 5
