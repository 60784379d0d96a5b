package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable is a text from outside as a terminal may show it, where it can't move the cursor, change the title, or hide or reorder
// what stands beside it. Escapes stand for control characters other than newline and tab, for characters that only format, such as
// those that turn the direction of writing, and for bytes that are no UTF-8. From U+007F on the escapes are JSON's, so that JSON
// stays what it is. The joiners of emoji and of some scripts stay.
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

// Line is Printable for what has one line, such as a key or the cell of a table: it can't begin another row.
func Line(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Printable(text))
}

// obeyed says whether a terminal, or what lays its text out, does something for the character other than to show it.
func obeyed(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch r {
	case '\n', '\t', nonJoiner, joiner:
		return false
	default:
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}
}
