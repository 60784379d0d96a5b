package cli_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/setup/cli"
)

// No line is wider than the terminal. A wider line would wrap and could not be redrawn.
func TestArrange(t *testing.T) {
	t.Parallel()
	parts := []string{"175 of 500 done", "22 of 20 requests/s, 784 of 4000 tokens/s", "cost 0.02", "at least 16s left"}
	for width, want := range map[int][]string{
		0:   {strings.Join(parts, "; ")},
		200: {strings.Join(parts, "; ")},
		60:  {"175 of 500 done; 22 of 20 requests/s, 784 of 4000 tokens/s", "cost 0.02; at least 16s left"},
		30:  {"175 of 500 done", "22 of 20 requests/s, 784 of", "4000 tokens/s; cost 0.02", "at least 16s left"},
	} {
		if diff := cmp.Diff(want, cli.Arrange(parts, width)); diff != "" {
			t.Error(width, diff)
		}
	}
	for width := 1; width < 40; width++ {
		for _, line := range cli.Arrange(append(parts, strings.Repeat("é", 50)), width) {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

// Table returns the widest level that fits, and cuts only allowed columns.
func TestTable(t *testing.T) {
	t.Parallel()
	type row struct{ id, kind, text string }
	heads := []cli.Column{{Head: "ID", Until: 1}, {Head: "TYPE"}, {Head: "TEXT", Until: 1, Least: []int{0, 5}}}
	cells := func(r row, _ int) []string { return []string{r.id, r.kind, r.text} }
	rows := []row{{"é1", "some type", "a long\x1btext"}}
	for width, want := range map[int][]string{
		0:  {"ID  TYPE       TEXT", `é1  some type  a long\x1btext`},
		29: {"ID  TYPE       TEXT", `é1  some type  a long\x1btext`},
		28: {"ID  TEXT", `é1  a long\x1btext`},
		12: {"ID  TEXT", "é1  a long\\…"},
		9:  {"ID  TEXT", "é1  a lo…"},
		7:  {"ID  TE…", "é1  a …"},
	} {
		if diff := cmp.Diff(want, cli.Table(rows, width, heads, cells)); diff != "" {
			t.Errorf("%d columns: %s", width, diff)
		}
	}
}
