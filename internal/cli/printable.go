package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is a text that others wrote, such as a provider's error, as it may be shown on a terminal: control characters other than newline and
// tab, and bytes that are no text, are replaced by their Go escapes, e.g. \x1b.
func Printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, width := utf8.DecodeRuneInString(text)
		part := text[:width]
		text = text[width:]
		if r == utf8.RuneError && width == 1 || unicode.IsControl(r) && r != '\n' && r != '\t' {
			part = strings.Trim(strconv.Quote(part), `"`)
		}
		b.WriteString(part)
	}
	return b.String()
}
