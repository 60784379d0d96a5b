package cli

import (
	"fmt"
	"io"
)

// Print prints a result, as JSON or as text for people.
func Print(w io.Writer, asJSON bool, result any, text string) error {
	if asJSON {
		return JSON(w).Encode(result)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Warn prints what is allowed and may still be a mistake.
func Warn(env Environment, format string, args ...any) {
	_, _ = fmt.Fprintf(env.Err, "headway: warning: "+format+"\n", args...) // there is nowhere else to say it
}
