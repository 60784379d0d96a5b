package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const checkedIn = "../godoc.jsonl"

func generated(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, complaints bytes.Buffer
	if err := run(args, &out, &complaints); err != nil {
		t.Fatalf("%v %s", err, &complaints)
	}
	return out.Bytes()
}

// checkShape fails unless the file is usable for the demo. It returns the version of Go that wrote the file.
func checkShape(t *testing.T, text []byte) string {
	t.Helper()
	lines := batch.NewReader(bytes.NewReader(text), batch.Config{})
	var version string
	count, small, large := 0, 0, 0
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var body chat
		if err := json.Unmarshal(line.Body, &body); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(body.Messages[0].Content, "standard library (")
		made, _, found := strings.Cut(after, ")")
		if !found || version != "" && made != version {
			t.Errorf("line %d was made with %q, others with %q", line.Number, made, version)
		}
		version = made
		tokens := (len(body.Messages[0].Content)+len(body.Messages[1].Content))/4 + body.MaxTokens
		count++
		if tokens < 300 {
			small++
		}
		if tokens > 2000 {
			large++
		}
		if tokens > 4500 || body.MaxTokens < leastMaxTokens || body.MaxTokens > mostMaxTokens {
			t.Errorf("line %d: %d tokens, max_tokens %d", line.Number, tokens, body.MaxTokens)
		}
	}
	if count != 400 || small < 50 || large < 20 {
		t.Errorf("%d requests, %d small, %d large; want 400, some of each size", count, small, large)
	}
	if len(text) > 1_500_000 {
		t.Errorf("%d bytes are too many to check in", len(text))
	}
	return version
}

// The file in the repository is the output of this program for one version of Go. The output of other versions has
// the same shape.
func TestCheckedInFile(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile(checkedIn)
	if err != nil {
		t.Fatal(err)
	}
	version := checkShape(t, have)
	fresh := generated(t)
	checkShape(t, fresh)
	if version != runtime.Version() {
		t.Logf("made with %s, this is %s: only the shape is compared", version, runtime.Version())
		return
	}
	if !bytes.Equal(have, fresh) {
		t.Errorf("%s is not what this program writes; run: go run ./examples/godoc -o examples/godoc.jsonl", checkedIn)
	}
}

func TestOutputFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	if out := generated(t, "-n", "3", "-o", path); len(out) != 0 {
		t.Errorf("wrote %q to standard output", out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := batch.NewReader(bytes.NewReader(text), batch.Config{})
	for n := range 4 {
		if _, err := lines.Next(); n < 3 && err != nil || n == 3 && !errors.Is(err, io.EOF) {
			t.Errorf("request %d: %v", n, err)
		}
	}
}

func TestArgumentsAtFault(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"stray"}, {"-nonsense"}, {"-n", "0"}, {"-o", filepath.Join(t.TempDir(), "no", "folder")},
	} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"0123456789", "0123456789"},
		{"0123\n456789", "0123\n\n(and more)"},
		{"012345678éé", "012345678\n\n(and more)"},
	} {
		if got := shortened(c.text, 10); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
}
