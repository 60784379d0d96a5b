package cli_test

import (
	"testing"

	"github.com/headway-go/headway/internal/cli"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"as it is: ä, \"q\", \\x1b": "as it is: ä, \"q\", \\x1b",
		"two\n\tlines":              "two\n\tlines",
		"\x1b[31mred\x1b[0m\r\x00":  `\x1b[31mred\x1b[0m\r\x00`,
		"\a\b\v\f\x7f":              `\a\b\v\f\x7f`,
		"\u009b2J":                  `\u009b2J`,
		"\x9b2J":                    `\x9b2J`,
		"\ufffd":                    "\ufffd",
	} {
		if got := cli.Printable(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
