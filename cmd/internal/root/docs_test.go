package root

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
)

// The shell blocks in README.md and docs/*.md call the program. Each of their lines has a command and flags that exist,
// and arguments that are accepted.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	const top, program = "../../..", "headway"
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(top, "README.md")) {
		for _, words := range calls(t, page, program) {
			found++
			c := Command(cli.Environment{Getenv: func(string) string { return "" }, Out: io.Discard, Err: io.Discard})
			c, rest, err := c.Find(words)
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil && !c.Runnable() {
				t.Errorf("%s: %s %q only prints help", page, program, words)
				continue
			}
			if err == nil && c.Args != nil {
				err = c.Args(c, c.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s %q: %v", page, program, words, err)
			}
		}
	}
	if found < 3 {
		t.Errorf("found only %d calls of %s", found, program)
	}
}

// word is a word of a shell's line, or a comment up to its end.
var word = regexp.MustCompile(`#.*|"[^"]*"|\S+`)

// calls are the arguments of each line that calls the program, without what the shell does itself.
func calls(t *testing.T, page, program string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```")
	for i := 1; i < len(blocks); i += 2 {
		code, ok := strings.CutPrefix(blocks[i], "sh\n")
		if !ok {
			continue
		}
		for line := range strings.Lines(code) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/")
			rest, ok := strings.CutPrefix(line, program+" ")
			if !ok {
				continue
			}
			var words []string
			for _, w := range word.FindAllString(rest, -1) {
				if strings.ContainsAny(w[:1], "#<>|&;") {
					break
				}
				words = append(words, strings.Trim(w, `"`))
			}
			all = append(all, words)
		}
	}
	return all
}
