package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsQuotePrograms fails unless each Go block in README and docs is part of a program that compiles: a runnable
// example, or a program of this folder.
func TestDocsQuotePrograms(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	for _, name := range files(t, "*/main.go", "../*/example_*_test.go", "../*/*/example_*_test.go") {
		programs.WriteString(flat(t, name))
	}
	quoted := 0
	for _, page := range files(t, "../README.md", "../docs/*.md") {
		blocks := strings.Split(flat(t, page), "```")
		for i := 1; i < len(blocks); i += 2 {
			code, ok := strings.CutPrefix(blocks[i], "go\n")
			if !ok {
				continue
			}
			quoted++
			if !strings.Contains(programs.String(), code) {
				t.Errorf("%s: in no program:\n%s", page, code)
			}
		}
	}
	if quoted < 8 {
		t.Errorf("found only %d blocks of Go", quoted)
	}
}

// files returns the files that match the patterns.
func files(t *testing.T, patterns ...string) (names []string) {
	t.Helper()
	for _, p := range patterns {
		some, err := filepath.Glob(p)
		if err != nil || len(some) == 0 {
			t.Fatalf("no file matches %s: %v", p, err)
		}
		names = append(names, some...)
	}
	return names
}

// flat returns the text of the file without indentation.
func flat(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
