package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is a text from outside, such as a provider's, as a terminal may show it: control characters other than newline and tab, and bytes
// that are no UTF-8, are their Go escapes, e.g. \x1b. So it can't move the cursor, change the title or hide what stands beside it.
func Printable(text string) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		broken := r == utf8.RuneError && size == 1
		if broken || unicode.IsControl(r) && r != '\n' && r != '\t' {
			quoted := strconv.Quote(rest[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}
