package testenv

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Escapes is a text that a terminal obeys. It sets the title, goes up a line and clears it, reverses the direction of
// writing, and ends with an eight-bit control character.
const Escapes = "k\x1b]0;owned\a\x1b[1A\x1b[2K\u202edesrever\u2066\u200f\u009b31m\x7f\U000e0041"

// Forges is Escapes, followed by a line that looks like the row of a table.
const (
	Forges = Escapes + "\n" + forged
	forged = "forged  row"
)

// Obeyed returns the first character in the output of a command that a terminal would obey, or a row that Forges
// forged. It is empty if there is neither.
func Obeyed(printed string) string {
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(strings.TrimPrefix(line, "  "), forged) { // rows of tables are indented by two columns at most
			return fmt.Sprintf("the line %q in %q", line, printed)
		}
	}
	for i, r := range printed {
		if r == utf8.RuneError && strings.HasPrefix(printed[i:], "\ufffd") {
			continue
		}
		if r == utf8.RuneError || r != '\n' && r != '\t' &&
			(unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r)) {
			return fmt.Sprintf("%q in %q", r, printed[max(0, i-40):min(len(printed), i+40)])
		}
	}
	return ""
}

// Commands returns the paths of all runnable commands below root, without the name of the program.
func Commands(root *cobra.Command) []string {
	var paths []string
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.HasSubCommands() {
			for _, below := range Commands(c) {
				paths = append(paths, c.Name()+" "+below)
			}
			continue
		}
		paths = append(paths, c.Name())
	}
	return paths
}
