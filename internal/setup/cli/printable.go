package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes a text from outside safe for a terminal: it can't move the cursor, change the title, or hide or
// reorder other text. It escapes control characters other than newline and tab, format characters, e.g. for the
// direction of writing, and bytes that are not UTF-8. From U+007F on it uses JSON's escapes, so that JSON keeps its
// meaning. The joiners of emoji and of some scripts stay.
func Printable(text string) string {
	if !strings.ContainsFunc(text, obeyed) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1, r < 0x7f && obeyed(r):
			quoted := strconv.Quote(rest[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		case obeyed(r):
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}

// Line is Printable for a text of one line, e.g. a key or the cell of a table. It escapes newlines and tabs too.
func Line(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Printable(text))
}

// obeyed returns whether a terminal, or its text layout, does anything with the character but show it.
func obeyed(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch r {
	case '\n', '\t', nonJoiner, joiner:
		return false
	default:
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}
}
