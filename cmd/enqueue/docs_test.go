package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/cli"
)

// guide returns what stands in the fenced blocks of a kind in docs/batch.md.
func guide(t *testing.T, kind string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/batch.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```"+kind+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// Each command of the guide does what it says, one after the other, with the file and the settings of the guide.
func TestGuide(t *testing.T) {
	input, settings, commands := guide(t, "json"), guide(t, "yaml"), guide(t, "sh")
	w := newWorld(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"in.jsonl": input[0], "headway.yaml": settings[0]} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.config = "headway.yaml"
	batch := ""
	ran := 0
	for command := range strings.Lines(strings.Join(commands, "")) {
		command = strings.TrimSpace(command)
		if command == "worker run" {
			w.work(t, nil)
			continue
		}
		ran++
		if c := w.typed(t, strings.ReplaceAll(command, "BATCH", batch)); batch == "" {
			batch = batchOf(t, c)
			if lines := readLines(t, "out.jsonl"); len(lines) != 1 || lines[0].CustomID != "request-1" {
				t.Errorf("answers %+v", lines)
			}
		}
	}
	if ran < 10 {
		t.Errorf("the guide has %d commands", ran)
	}
	if left, err := filepath.Glob(".*"); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// typed runs a line as it would be typed, and wants it to succeed.
func (w *world) typed(t *testing.T, line string) call {
	t.Helper()
	line, from, _ := strings.Cut(line, " < ")
	var in []byte
	if from != "" {
		var err error
		if in, err = os.ReadFile(from); err != nil {
			t.Fatal(err)
		}
	}
	args := strings.Fields(line)
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), rootCommand, args[1:], cli.Environment{Getenv: w.getenv, In: bytes.NewReader(in), Out: &out, Err: &errs})
	if args[0] != "enqueue" || code != cli.ExitOK {
		t.Fatalf("%s: exit %d: %s%s", line, code, out.String(), errs.String())
	}
	return call{redis: w.redis, code: code, out: out.String(), err: errs.String()}
}
