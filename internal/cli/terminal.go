package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Fits says whether w is a terminal that can redraw lines, of at least this size.
func Fits(w io.Writer, columns, rows int) bool {
	width, height := size(w)
	return width >= columns && height >= rows
}

// Columns is how wide w is, where it is a terminal that can redraw lines, and zero elsewhere: there nothing has to fit.
func Columns(w io.Writer) int {
	width, _ := size(w)
	return width
}

// size is zero where w is no terminal that can redraw lines.
func size(w io.Writer) (columns, rows int) {
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

// IsTerminal says whether w is a terminal that can redraw lines.
func IsTerminal(w io.Writer) bool {
	f, ok := Control(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
