package cli

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"
)

// helpInOnePiece has the help of c, and of all commands below it, written at once, so that its lines wrap as a whole.
// On a terminal, a paragraph of the command's own text is one line before that.
func helpInOnePiece(c *cobra.Command) {
	whole := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		if IsTerminal(out) {
			c.Long = unfold(c.Long)
		}
		var b bytes.Buffer
		c.SetOut(&b)
		whole(c, args)
		c.SetOut(out)
		_, _ = out.Write(b.Bytes()) // no output is left for an error
	})
}

// unfold makes each paragraph of a text one line. An indented line begins a paragraph, and lines that are further
// indented belong to it.
func unfold(text string) string {
	var lines []string
	indent := -1 // of the paragraph; less than zero for none
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.TrimLeft(line, " ")
		own := len(line) - len(words)
		if words != "" && (own == 0 && indent == 0 || own > indent && indent > 0) {
			lines[len(lines)-1] += " " + words
			continue
		}
		lines = append(lines, line)
		if indent = own; words == "" {
			indent = -1
		}
	}
	return strings.Join(lines, "\n")
}
