package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal says whether w is a terminal that can redraw lines.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
