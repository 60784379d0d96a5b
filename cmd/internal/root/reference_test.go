package root

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
)

const reference = "../../../docs/commands.md"

var update = flag.Bool("update", false, "write docs/commands.md again")

// TestReferenceIsTrue compares docs/commands.md with the help of each command.
func TestReferenceIsTrue(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	page.WriteString("# Commands\n\n" +
		"The output of `--help` for each command; `headway completion` writes completions for your shell.\n" +
		"`go test ./cmd/internal/root -update` writes this page.\n")
	describe(t, &page, nil)
	if *update {
		if err := os.WriteFile(reference, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if stored, err := os.ReadFile(reference); err != nil || !bytes.Equal(stored, page.Bytes()) {
		t.Errorf("%s is not what the commands say (%v): run `go test ./cmd/internal/root -update`", reference, err)
	}
}

// describe writes the help of the command at path, and of the commands below it.
func describe(t *testing.T, page *bytes.Buffer, path []string) {
	t.Helper()
	var out bytes.Buffer
	env := cli.Environment{Getenv: func(string) string { return "" }, Out: &out, Err: &out}
	if code := cli.Run(t.Context(), Command, append(path, "--help"), env); code != cli.ExitOK {
		t.Fatalf("%q --help: exit %d: %s", path, code, out.String())
	}
	fmt.Fprintf(page, "\n## headway %s", strings.Join(path, " "))
	page.Truncate(len(bytes.TrimRight(page.Bytes(), " ")))
	fmt.Fprintf(page, "\n\n```text\n%s\n```\n", strings.TrimSpace(out.String()))
	for _, name := range below(t, env, path) {
		describe(t, page, append(slices.Clip(path), name))
	}
}

// below returns the names of the commands below path in the order of the help, without what cobra adds.
func below(t *testing.T, env cli.Environment, path []string) (names []string) {
	t.Helper()
	c, _, err := Command(env).Find(path)
	if err != nil {
		t.Fatal(err)
	}
	groups := c.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{}}
	}
	for _, group := range groups {
		for _, child := range c.Commands() {
			if child.GroupID == group.ID && child.IsAvailableCommand() {
				names = append(names, child.Name())
			}
		}
	}
	return names
}
