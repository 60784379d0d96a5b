package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Columns returns the width of w if it is a terminal that can redraw lines, else zero, which means any width.
func Columns(w io.Writer) int {
	width, _ := Size(w)
	return width
}

// Size returns the size of w, or zero if w is no terminal that can redraw lines.
func Size(w io.Writer) (columns, rows int) {
	f, ok := Control(w).(*os.File)
	if !ok || !IsTerminal(w) {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// IsTerminal returns whether w is a terminal that can redraw lines.
func IsTerminal(w io.Writer) bool {
	f, ok := Control(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
