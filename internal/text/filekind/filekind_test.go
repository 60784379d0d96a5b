package filekind_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/text/filekind"
)

// A new kind of file is one row.
func TestOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "{}": "", "{\"a\":1}\n": "", "\xef\xbb\xbf{}": "", "日本": "", "\xff": "", "{\x00": "",
		"\x1f\x8b\x08": "a gzip file", "\x28\xb5\x2f\xfd\x00": "a zstd file", "BZh9": "a bzip2 file",
		"\xfd7zXZ\x00\x00": "an xz file", "PK\x03\x04\x14": "a zip file", "PAR1\x15": "a Parquet file",
		"\xfe\xff\x00{\x00\"": "UTF-16 text", "SQLite format 3\x00": "an SQLite database", "%PDF-1.7": "a PDF file",
		"Obj\x01\x04": "an Avro file", "ARROW1\x00\x00": "an Arrow file",
		"\x04\x22\x4d\x18": "an lz4 file", "7z\xbc\xaf\x27\x1c": "a 7z file",
		"\xff\xfe{\x00": "UTF-16 text", "\xfe\xff\x00{": "UTF-16 text", "{\x00\"\x00": "UTF-16LE text",
		"\x00{\x00\"": "UTF-16BE text", "\xff\xfe\x00\x00": "UTF-32 text", "{\x00\x00\x00": "UTF-32LE text",
		"\x00\x00\x00{": "UTF-32BE text",
	} {
		if got := filekind.Of([]byte(text)); got.Name != want || (got.Advice == "") != (want == "") {
			t.Errorf("%q: got %+v, want %q", text, got, want)
		}
	}
}

// Every JSON text is known in gzip and in UTF-16, and is nothing else in UTF-8.
func FuzzOf(f *testing.F) {
	f.Add(`"custom_id":"a"}`)
	f.Fuzz(func(t *testing.T, rest string) {
		text := `{"` + strings.ToValidUTF8(rest, "?")
		if got := filekind.Of([]byte(text)); got.Name != "" && !strings.HasPrefix(rest, "\x00") {
			t.Errorf("%q: %+v", text, got)
		}
		if at := filekind.Invalid([]byte(text)); at >= 0 {
			t.Errorf("%q: invalid at %d", text, at)
		}
		at := filekind.Invalid([]byte(rest))
		if (at < 0) != utf8.ValidString(rest) || at >= 0 && !utf8.ValidString(rest[:at]) {
			t.Errorf("%q: invalid at %d", rest, at)
		}
		var packed, wide bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		_ = binary.Write(&wide, binary.LittleEndian, utf16.Encode([]rune(text)))
		a, b := filekind.Of(packed.Bytes()), filekind.Of(wide.Bytes())
		if a.Name != "a gzip file" || b.Name != "UTF-16LE text" {
			t.Errorf("%q: %+v, %+v", text, a, b)
		}
	})
}
