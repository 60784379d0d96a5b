package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// wrapHelp makes the help of a command and of all commands below it fit into a terminal of that width.
func wrapHelp(c *cobra.Command, columns int) {
	c.Long = Wrap(c.Long, columns)
	if !c.HasParent() {
		flags := fmt.Sprintf(".FlagUsagesWrapped %d", columns)
		c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages", flags))
	}
	for _, sub := range c.Commands() {
		wrapHelp(sub, columns)
	}
}

// Wrap fills the paragraphs of a text again, in lines of at most that many columns. An indented line begins a paragraph
// of its own, whose further lines have the same indent. A longer word is not broken.
func Wrap(text string, columns int) string {
	var lines []string
	open := false // the last line can be continued
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if indent != "" || line == "" || !open {
			lines = append(lines, indent)
		}
		open = line != "" && indent == ""
		if indent != "" && utf8.RuneCountInString(line) <= columns { // it may be aligned with others
			lines[len(lines)-1] = line
			continue
		}
		for word := range strings.FieldsSeq(line) {
			last := &lines[len(lines)-1]
			switch {
			case strings.TrimSpace(*last) == "":
				*last += word
			case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= columns:
				*last += " " + word
			default:
				lines = append(lines, indent+word)
			}
		}
	}
	return strings.Join(lines, "\n")
}
