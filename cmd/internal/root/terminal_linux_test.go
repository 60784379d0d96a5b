package root

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/clitest"
)

// On a terminal of 80 columns no help has a longer line or a broken word, and no example goes over two lines.
func TestHelpFitsTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	fits(t, nil)
}

func fits(t *testing.T, path []string) {
	t.Helper()
	const columns = 80
	var whole strings.Builder
	env := cli.Environment{Getenv: func(string) string { return "" }, Out: &whole, Err: &whole}
	cli.Run(t.Context(), Command, append(path, "--help"), env)
	shown := clitest.Shown(t, columns, func(terminal *os.File) {
		onTerminal := cli.Environment{Getenv: env.Getenv, Out: terminal, Err: terminal}
		cli.Run(t.Context(), Command, append(path, "--help"), onTerminal)
	})
	for line := range strings.SplitSeq(shown, "\n") {
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%q has %d columns: %s", path, n, line)
		}
	}
	if diff := cmp.Diff(strings.Fields(whole.String()), strings.Fields(shown)); diff != "" {
		t.Errorf("%q: %s", path, diff)
	}
	c, _, err := Command(env).Find(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(c.Example, "\n") {
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%q has an example of %d columns: %s", path, n, line)
		}
	}
	for _, name := range below(t, env, path) {
		fits(t, append(slices.Clip(path), name))
	}
}
