package redact

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf8"
)

// entityMost bounds the entities of HTML that are looked for, in bytes.
const entityMost = 24

// decode appends what the beginning of a text stands for to means: an escape, or else one byte. Size is how many bytes
// of the text that is, at least one. Any number of backslashes stands for none, and %25 for the % of another escape:
// each level of quoting adds some.
func decode(means, text []byte) (meant []byte, size int) {
	switch text[0] {
	case '\\':
		size = len(text) - len(bytes.TrimLeft(text, `\`))
		if size == len(text) {
			return means, size
		}
		if r, n := braced(text[size:]); n > 0 {
			return utf8.AppendRune(means, r), size + n
		}
		digits := 0
		switch text[size] {
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		}
		r, ok := hexadecimal(text[size+1:], digits)
		switch {
		case !ok:
			return append(means, text[size]), size + 1
		case digits == 2:
			return append(means, byte(r)), size + 1 + digits //nolint:gosec // two digits
		}
		return utf8.AppendRune(means, r), size + 1 + digits
	case '%':
		for size = 1; bytes.HasPrefix(text[size:], []byte("25")); size += 2 {
			if _, ok := hexadecimal(text[size+2:], 2); !ok {
				break
			}
		}
		if r, ok := hexadecimal(text[size:], 2); ok {
			return append(means, byte(r)), size + 2 //nolint:gosec // two digits
		}
	case '&':
		end := 1 + bytes.IndexByte(text[:min(len(text), entityMost)], ';')
		if plain := html.UnescapeString(string(text[:end])); len(plain) < end {
			return append(means, plain...), end
		}
	}
	return append(means, text[0]), 1
}

// braced reads `u{2b}`, and returns how long that is; zero for anything else.
func braced(text []byte) (r rune, length int) {
	const digitsMost = 8
	if len(text) < 2 || text[0] != 'u' || text[1] != '{' {
		return 0, 0
	}
	digits := bytes.IndexByte(text[2:min(len(text), 2+digitsMost+1)], '}')
	r, ok := hexadecimal(text[2:], digits)
	if !ok {
		return 0, 0
	}
	return r, 2 + digits + 1
}

// hexadecimal reads that many hexadecimal digits. Not ok if text has fewer, or if digits is zero or less.
func hexadecimal(text []byte, digits int) (r rune, ok bool) {
	if digits <= 0 || len(text) < digits {
		return 0, false
	}
	for _, c := range text[:digits] {
		value := strings.IndexByte("0123456789abcdef", c|0x20)
		if value < 0 {
			return 0, false
		}
		r = r<<4 | rune(value) //nolint:gosec // below 16
	}
	return r, true
}

// decoded is what a whole text stands for.
func decoded(text string) string {
	var all []byte
	for rest := []byte(text); len(rest) > 0; {
		var size int
		all, size = decode(all, rest)
		rest = rest[size:]
	}
	return string(all)
}
