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
	var all strings.Builder
	for _, name := range programs(t) {
		all.WriteString(flat(t, name))
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
			if !strings.Contains(all.String(), code) {
				t.Errorf("%s: in no program:\n%s", page, code)
			}
		}
	}
	if quoted < 8 {
		t.Errorf("found only %d blocks of Go", quoted)
	}
}

// The first code of README is a whole program, which a test of its package runs.
func TestReadmeBeginsWithAProgram(t *testing.T) {
	t.Parallel()
	_, program, _ := strings.Cut(flat(t, "summary/main.go"), "\npackage main\n")
	_, code, _ := strings.Cut(flat(t, "../README.md"), "```go\n")
	if code, _, _ = strings.Cut(code, "```"); program == "" || code != "package main\n"+program {
		t.Errorf("README's first Go code is not summary/main.go:\n%s", code)
	}
}

// programs returns the files of the programs of this folder, and of all runnable examples.
func programs(t *testing.T) []string {
	t.Helper()
	return files(t, "*/main.go", "ownstore/store*.go",
		"../example_*_test.go", "../*/example_*_test.go", "../*/*/example_*_test.go")
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
