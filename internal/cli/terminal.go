package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Fits says whether w is a terminal that can redraw lines, of at least this size.
func Fits(w io.Writer, columns, rows int) bool {
	if !IsTerminal(w) {
		return false
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return err == nil && width >= columns && height >= rows
}

// IsTerminal says whether w is a terminal that can redraw lines.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
