// Package shell writes names into commands that people copy into a shell.
package shell

import (
	"regexp"
	"strings"
)

// plain are words that a shell leaves as they are, and that no command takes for a flag.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./][A-Za-z0-9_@%+=:,./-]*$`)

// Word returns a text as one word of a POSIX shell: in quotes unless it needs none. A task or tenant chooses its own
// name, so a name may hold a command.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
