package cli_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
)

// Characters that a terminal would obey are escaped.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "",
		"a \"b\"\\\n\tä 世界 🙂 \u2028":  "a \"b\"\\\n\tä 世界 🙂 \u2028",
		"\x1b[2J\x1b]0;title\x07":     `\x1b[2J\x1b]0;title\a`,
		"over\rwritten\b\v\f\x00\x7f": `over\rwritten\b\v\f\x00\u007f`,
		"\u009b31m":                   `\u009b31m`,
		"cut \xe4 \x9b31m \ufffd":     "cut \\xe4 \\x9b31m \ufffd",
	} {
		if got := cli.Printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A key can't begin a new row.
func TestRowsAreNotForged(t *testing.T) {
	t.Parallel()
	lines := cli.Aligned([][]string{{"KEY", "RATE"}, {"a\nforged  row\t\x1b", "1/s\n2/s"}, {"b", "3/s"}})
	want := []string{"KEY                   RATE", `a\nforged  row\t\x1b  1/s\n2/s`, "b                     3/s"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

// An error with the text of a provider is printed safely.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	root := func(cli.Environment) *cobra.Command {
		return &cobra.Command{
			Use:  "x",
			RunE: func(*cobra.Command, []string) error { return errors.New("it said:\n\x1b[31mno\x1b[0m") },
		}
	}
	code := cli.Run(t.Context(), root, nil, cli.Environment{Err: &told, Out: &told})
	if want := "x: it said:\n" + `\x1b[31mno\x1b[0m` + "\n"; told.String() != want || code != cli.ExitFailed {
		t.Errorf("exit %d: %q", code, told.String())
	}
}
