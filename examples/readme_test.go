package examples_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeQuotesTheProgram holds the README's Go to programs that compile: what it shows stands in examples/summary or in worker's example.
func TestReadmeQuotesTheProgram(t *testing.T) {
	t.Parallel()
	program := flat(t, "summary/main.go") + flat(t, "../worker/example_several_test.go")
	blocks := strings.Split(flat(t, "../README.md"), "```")
	quoted := 0
	for i := 1; i < len(blocks); i += 2 {
		code, ok := strings.CutPrefix(blocks[i], "go\n")
		if !ok || strings.Contains(code, "worker.Adopt") { // that one is worker's own example
			continue
		}
		quoted++
		if !strings.Contains(program, code) {
			t.Errorf("in no program:\n%s", code)
		}
	}
	if quoted < 4 {
		t.Errorf("found only %d blocks of Go", quoted)
	}
}

// flat is the file without indentation.
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
