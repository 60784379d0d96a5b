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

// flag is a word that a shell leaves as it is, as the name of a flag.
var flag = regexp.MustCompile(`^--?[a-z-]*$`)

// Command returns a command with one argument and its flags, which people copy. The command itself is a constant. An
// argument that a command would take for a flag is behind all flags and "--".
func Command(command, argument string, flags ...string) string {
	var options strings.Builder
	for _, word := range flags {
		if !flag.MatchString(word) {
			word = Word(word)
		}
		options.WriteString(" " + word)
	}
	switch {
	case argument == "-": // standard input
		return command + " -" + options.String()
	case strings.HasPrefix(argument, "-"):
		return command + options.String() + " -- " + Word(argument)
	}
	return command + " " + Word(argument) + options.String()
}
