// Package filekind names what a text is that should be UTF-8 and is not, by its first bytes.
package filekind

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Kind is what a file or an answer is, and how it becomes UTF-8. The zero value stands for what may be UTF-8.
type Kind struct {
	// Name is with its article, e.g. "a gzip file".
	Name string
	// Advice says what to do, e.g. "unpack it first, as in zcat FILE".
	Advice string
}

// headBytes is how many of the first bytes Of looks at.
const headBytes = 512

// Of looks at the first bytes. The mark of UTF-8 before a text is UTF-8.
func Of(text []byte) Kind {
	text = text[:min(len(text), headBytes)]
	for _, packed := range []struct{ magic, name, tool string }{
		{"\x1f\x8b", "a gzip file", "zcat FILE"},
		{"\x28\xb5\x2f\xfd", "a zstd file", "zstdcat FILE"},
		{"BZh", "a bzip2 file", "bzcat FILE"},
		{"\xfd7zXZ\x00", "an xz file", "xzcat FILE"},
		{"\x04\x22\x4d\x18", "an lz4 file", "lz4cat FILE"},
		{"PK\x03\x04", "a zip file", "unzip -p FILE"},
		{"7z\xbc\xaf\x27\x1c", "a 7z file", "7z x -so FILE"},
	} {
		if bytes.HasPrefix(text, []byte(packed.magic)) {
			return Kind{packed.name, "unpack it first, as in " + packed.tool}
		}
	}
	for _, table := range []struct{ magic, name string }{
		{"PAR1", "a Parquet file"},
		{"ARROW1", "an Arrow file"},
		{"Obj\x01", "an Avro file"},
		{"SQLite format 3\x00", "an SQLite database"},
		{"%PDF-", "a PDF file"},
	} {
		if bytes.HasPrefix(text, []byte(table.magic)) {
			return Kind{table.name, "write it as lines of JSON first"}
		}
	}
	if width := unicodeOf(text); width != "" {
		return Kind{width + " text", fmt.Sprintf("write it as UTF-8 first, as in iconv -f %s -t UTF-8 FILE", width)}
	}
	return Kind{}
}

// unicodeOf is the wider encoding of a text: by its mark, else because each other byte of its beginning is zero.
func unicodeOf(text []byte) string {
	for _, mark := range []struct{ bytes, name string }{
		{"\xff\xfe\x00\x00", "UTF-32"}, {"\x00\x00\xfe\xff", "UTF-32"}, {"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
	} {
		if bytes.HasPrefix(text, []byte(mark.bytes)) {
			return mark.name
		}
	}
	if len(text) < 4 {
		return ""
	}
	switch zeros := [4]bool{text[0] == 0, text[1] == 0, text[2] == 0, text[3] == 0}; zeros {
	case [4]bool{false, true, false, true}:
		return "UTF-16LE"
	case [4]bool{true, false, true, false}:
		return "UTF-16BE"
	case [4]bool{false, true, true, true}:
		return "UTF-32LE"
	case [4]bool{true, true, true, false}:
		return "UTF-32BE"
	}
	return ""
}

// Invalid is the position of the first byte that is not UTF-8, from 0, or -1.
func Invalid(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}
