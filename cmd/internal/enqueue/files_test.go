package enqueue

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A file that could not be written hours later is reported before any request is sent.
func TestFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder := t.TempDir()
	in := filepath.Join(folder, "in.jsonl")
	if err := os.WriteFile(in, []byte(chats(3)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, link, hard := filepath.Join(folder, "out.jsonl"), filepath.Join(folder, "link.jsonl"), filepath.Join(folder,
		"hard.jsonl")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(in, hard); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"same":            {[]string{"--out", out, "--errors", out}, "same file"},
		"another way":     {[]string{"--out", out, "--errors", folder + "/./out.jsonl"}, "same file"},
		"a link":          {[]string{"--out", out, "--errors", link}, "is a link"},
		"the input":       {[]string{"--out", in}, "the file of the requests"},
		"the settings":    {[]string{"--out", w.config}, "the file of the limits"},
		"a link to it":    {[]string{"--errors", hard}, "the file of the requests"},
		"a folder":        {[]string{"--out", folder}, "is a folder"},
		"as a folder":     {[]string{"--out", filepath.Join(folder, "new") + "/"}, "no folder"},
		"no folder":       {[]string{"--errors", filepath.Join(folder, "none", "x")}, "no folder"},
		"file for folder": {[]string{"--errors", filepath.Join(in, "x")}, "no folder"},
		"a link alone":    {[]string{"--out", link}, "is a link"},
		"a device":        {[]string{"--out", os.DevNull}, "is a device"},
		"loop":            {[]string{"--out", "/dev/null/x"}, "no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := w.call(t, append([]string{"batch", in, "--limit", "openai"}, tc.args...)...)
			if c.code != cli.ExitUsage || !strings.Contains(c.err, tc.want) || c.pending(t) != 0 {
				t.Errorf("exit %d: %s", c.code, c.err)
			}
		})
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(in); err != nil || string(text) != chats(3) {
			t.Errorf("the input was changed: %v", err)
		}
	})
}

// Both outputs may be the same file if nothing is lost, and input from standard input may be answered on standard
// output.
func TestFilesThatMayBeTheSame(t *testing.T) {
	t.Parallel()
	for _, f := range []files{{out: "-"}, {out: "a", errors: "b"}} {
		if err := f.checkFiles(false, "-", ""); err != nil {
			t.Error(err)
		}
	}
}

// full is a writer without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(3))
		w.work(t, nil)
		var errs bytes.Buffer
		code := cli.Run(w.context(t), rootCommand, []string{
			"batch", in, "--limit", "openai", "--out", "-", "--config",
			w.config,
		}, cli.Environment{
			Getenv: w.getenv, In: strings.NewReader(""), Out: full{}, Err: &errs,
		})
		if code != cli.ExitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("exit %d: %s", code, errs.String())
		}
		out := filepath.Join(t.TempDir(), "out.jsonl")
		if c := w.call(t, "batch", in, "--limit", "openai", "--out", out); c.code != cli.ExitOK ||
			len(readLines(t, out)) != 3 {
			t.Errorf("exit %d: %s", c.code, c.err)
		}
	})
}

// A file of another form gets one hint, and no fault for each of its lines.
func TestFilesOfAnotherForm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]string{
			"id,prompt\n1,hi\n2,ho\n":        "standard input is a table (CSV), and a batch has one JSON object a line",
			"[" + line("a", 10) + "]":        "jq -c '.[]' FILE",
			"[\n" + line("a", 10) + ",\n{}]": "standard input is a JSON array",
			"{\n  \"custom_id\": \"a\"\n}":   "jq -c . FILE",
		} {
			for _, args := range [][]string{nil, {"--skip-invalid"}, {"--dry-run"}} {
				c := enqueueCommand(t, text, append([]string{"batch", "-", "--limit", "openai", "--config", repositoryConfig},
					args...)...)
				if c.code != cli.ExitUsage || !strings.Contains(c.err, want) || strings.Contains(c.err, "line 1") ||
					c.pending(t) != 0 {
					t.Errorf("%q of %q: exit %d: %s", args, text, c.code, c.err)
				}
			}
		}
	})
}
