package testenv

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Escapes is a text that a terminal obeys: it sets the title, goes up a line and clears it, turns the direction of writing, and ends in a
// control character of eight bits.
const Escapes = "k\x1b]0;owned\a\x1b[1A\x1b[2K\u202edesrever\u2066\u200f\u009b31m\x7f\U000e0041"

// Forges is Escapes, and a line that looks like the row of a table.
const (
	Forges = Escapes + "\n" + forged
	forged = "forged  row"
)

// Obeyed names the first character that a terminal would obey in what a command has printed, or the row that Forges has
// forged; empty where there is none.
func Obeyed(printed string) string {
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(strings.TrimPrefix(line, "  "), forged) { // the rows of tables stand two columns in at most
			return fmt.Sprintf("the line %q in %q", line, printed)
		}
	}
	for i, r := range printed {
		if r == utf8.RuneError && strings.HasPrefix(printed[i:], "\ufffd") {
			continue
		}
		if r == utf8.RuneError || r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r)) {
			return fmt.Sprintf("%q in %q", r, printed[max(0, i-40):min(len(printed), i+40)])
		}
	}
	return ""
}

// Commands are the paths of all commands below root that do something, without the name of the program.
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
