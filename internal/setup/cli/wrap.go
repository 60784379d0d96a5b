package cli

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	// gap is what separates the columns of a line.
	gap = regexp.MustCompile(`\S  +`)
	// plain is the word at the beginning of a text. To command, a command in backticks is one word.
	plain   = regexp.MustCompile(`^[^ \n]+`)
	command = regexp.MustCompile("^(?:`[^`\n]*`|[^ \n])+")
)

// wrap breaks the lines of a text that are longer than columns at words, never inside one. A command in backticks stays
// whole. The further lines of a row begin below its second column, of other text below its first word. Zero columns
// mean any width.
func wrap(text string, columns int) string {
	if columns <= 0 || len(text) <= columns {
		return text
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		wrapLine(&b, line, columns)
	}
	return b.String()
}

func wrapLine(b *strings.Builder, line string, columns int) {
	if width(strings.TrimRight(line, " \n")) <= columns {
		b.WriteString(line)
		return
	}
	below := len(line) - len(strings.TrimLeft(line, " "))
	if at := gap.FindStringIndex(line); at != nil && width(line[:at[1]]) <= columns/2 {
		below = width(line[:at[1]])
	}
	column := 0 // of the end of the line that is written
	for rest := line; rest != ""; {
		word := len(rest) - len(strings.TrimLeft(rest, " "))
		end := word + len(command.FindString(rest[word:]))
		if width(rest[word:end]) > columns-below {
			end = word + len(plain.FindString(rest[word:]))
		}
		switch {
		case end == word: // the end of the line
			end = len(rest)
			b.WriteString(rest[word:])
		case column > below && column+width(rest[:end]) > columns:
			b.WriteString("\n" + strings.Repeat(" ", below) + rest[word:end])
			column = below + width(rest[word:end])
		default:
			b.WriteString(rest[:end])
			column += width(rest[:end])
		}
		rest = rest[end:]
	}
}

// width is how many columns a text takes. Bold print takes none.
func width(text string) int {
	return utf8.RuneCountInString(strings.NewReplacer(boldOn, "", boldOff, "").Replace(text))
}
