package cli

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Data returns w for output that a program reads, e.g. a file of answers. The bytes stay unchanged unless w is a
// terminal, which gets no control characters.
func Data(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return unwrapped(w)
	}
	return Control(w)
}

// JSON returns an encoder of lines that stay whole on a terminal.
func JSON(w io.Writer) *json.Encoder { return json.NewEncoder(unwrapped(w)) }

// unwrapped returns w without the wrapping of lines.
func unwrapped(w io.Writer) io.Writer {
	if t, ok := w.(*text); ok {
		return &text{to: t.to, terminal: t.terminal}
	}
	return w
}

// Control returns w for control sequences, e.g. of a bar. Texts from outside must go through Printable first.
func Control(w io.Writer) io.Writer {
	if t, ok := w.(*text); ok {
		return t.to
	}
	return w
}

// text is an output for people. Each byte goes through Printable, so that no caller can forget it. On a terminal,
// bold print passes, for the commands' own headings, and long lines wrap at words. A Write begins at the left. Run
// makes both outputs of a command such writers. It is safe for concurrent use.
type text struct {
	to       io.Writer
	terminal bool
	wraps    bool

	mu   sync.Mutex // guards rest, and keeps each Write in one piece
	rest []byte     // the first bytes of a character that the next Write completes
}

func newText(to io.Writer) *text {
	terminal := IsTerminal(to)
	return &text{to: to, terminal: terminal, wraps: terminal}
}

// Write implements io.Writer.
func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	whole := append(t.rest, p...)
	end := len(whole) - partial(whole)
	t.rest = append([]byte(nil), whole[end:]...)
	if err := t.show(string(whole[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes an incomplete character.
func (t *text) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := string(t.rest)
	t.rest = nil
	return t.show(rest)
}

const (
	boldOn  = "\x1b[1m"
	boldOff = "\x1b[0m"
)

func (t *text) show(shown string) error {
	if shown == "" {
		return nil
	}
	if t.terminal {
		shown = aroundBold(shown)
	} else {
		shown = Printable(shown)
	}
	if t.wraps {
		shown = wrap(shown, Columns(t))
	}
	_, err := io.WriteString(t.to, shown)
	return err
}

// aroundBold restores the two sequences of bold print after Printable.
func aroundBold(shown string) string {
	on := strings.Split(shown, boldOn)
	for i, part := range on {
		off := strings.Split(part, boldOff)
		for j := range off {
			off[j] = Printable(off[j])
		}
		on[i] = strings.Join(off, boldOff)
	}
	return strings.Join(on, boldOn)
}

// partial returns how many bytes at the end belong to an incomplete character.
func partial(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if from := p[len(p)-n:]; utf8.RuneStart(from[0]) {
			if utf8.FullRune(from) {
				return 0
			}
			return n
		}
	}
	return 0
}
