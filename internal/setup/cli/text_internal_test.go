package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"
)

// Characters that are written in parts stay whole. An incomplete character is escaped at the end.
func TestTextInParts(t *testing.T) {
	t.Parallel()
	const sent = "ä世🙂\u202e\x9b\x1b[2Jé"
	for size := 1; size < len(sent); size++ {
		var got bytes.Buffer
		w := &text{to: &got}
		for rest := sent + "\xe4\xb8"; rest != ""; {
			n, err := io.WriteString(w, rest[:min(size, len(rest))])
			if err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
			rest = rest[n:]
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		if want := `ä世🙂\u202e\x9b\x1b[2Jé\xe4\xb8`; got.String() != want {
			t.Errorf("%d bytes at once: %q, want %q", size, got.String(), want)
		}
	}
}

// On a terminal, bold print is the only sequence that passes. Elsewhere none does.
func TestBoldPasses(t *testing.T) {
	t.Parallel()
	const sent = "\x1b[1mT\x1b[0m \x1b[2J\x1b[31m\x1b[1"
	for terminal, want := range map[bool]string{
		true: "\x1b[1mT\x1b[0m " + `\x1b[2J\x1b[31m\x1b[1`, false: `\x1b[1mT\x1b[0m \x1b[2J\x1b[31m\x1b[1`,
	} {
		var got bytes.Buffer
		_, err := io.WriteString(&text{to: &got, terminal: terminal}, sent)
		if got.String() != want || err != nil {
			t.Errorf("terminal %v: %q, %v", terminal, got.String(), err)
		}
	}
}

// No text contains anything that a terminal obeys, and JSON keeps its meaning.
func FuzzPrintable(f *testing.F) {
	f.Add("\x1b]0;a\a\u202e\u009b\x7f\U000e0041\xff\r\n\t")
	f.Add("👩\u200d👩\u200d👧 \u2028 ä")
	f.Fuzz(func(t *testing.T, given string) {
		shown := Printable(given)
		for _, r := range shown {
			if r != '\n' && r != '\t' && r != '\u200c' && r != '\u200d' &&
				(unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("%q has %q", shown, r)
			}
		}
		if Printable(shown) != shown {
			t.Errorf("%q: shown twice it is another", shown)
		}
		given = strings.ToValidUTF8(given, "")
		quoted, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(Printable(string(quoted))), &back); err != nil || back != given {
			t.Errorf("%q became %q: %v", given, back, err)
		}
	})
}
