package cli_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A file is complete or missing. Names that are no regular files stay unchanged.
func TestOutFile(t *testing.T) { //nolint:paralleltest // the umask belongs to the process
	before := syscall.Umask(0o027)
	defer syscall.Umask(before)
	folder := t.TempDir()
	name := filepath.Join(folder, "out")
	write := func(text string, end func(*cli.OutFile) error) {
		t.Helper()
		f, err := cli.CreateFile(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
		parts, err := filepath.Glob(filepath.Join(folder, ".*.part"))
		if err != nil || len(parts) != 1 {
			t.Fatal(parts, err)
		}
		part, err := os.Stat(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		if old, failed := os.Stat(name); failed == nil && part.Mode()&^old.Mode() != 0 && part.Mode() != 0o600 {
			t.Errorf("%v while %v is replaced", part.Mode(), old.Mode())
		}
		if err = end(f); err != nil {
			t.Fatal(err)
		}
	}
	check := func(text string, mode os.FileMode) {
		t.Helper()
		got, err := os.ReadFile(name)
		info, failed := os.Stat(name)
		if err != nil || failed != nil || string(got) != text || info.Mode() != mode {
			t.Errorf("%q, %v, %v, %v", got, info.Mode(), err, failed)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
			t.Errorf("left over: %v, %v", left, err)
		}
	}
	write("a", (*cli.OutFile).Keep)
	check("a", 0o640)
	write("b", (*cli.OutFile).Drop)
	check("a", 0o640)
	if err := os.Chmod(name, 0o604); err != nil {
		t.Fatal(err)
	}
	write("c", (*cli.OutFile).Keep)
	check("c", 0o604)
}

func TestWhatIsNoFileIsNotReplaced(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	if err := errors.Join(
		os.WriteFile(in("file"), []byte("as it was"), 0o600), os.Symlink(in("file"), in("link")), os.Symlink(in("none"),
			in("broken")),
		syscall.Mkfifo(in("pipe"), 0o600), os.Mkdir(in("folder"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	socket, err := config.Listen(t.Context(), "unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	for name, want := range map[string]string{
		in("link"): "is a link", in("broken"): "is a link", in("pipe"): "a pipe", in("socket"): "a socket",
		in("folder"): "is a folder",
		os.DevNull:   "a device", "/dev/stdout": "is a", in("file") + "/x": "not a directory", in("none") +
			"/x": "no such file",
	} {
		f, err := cli.CreateFile(name, nil)
		usage := (*cli.UsageError)(nil)
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || f != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(in("file")); err != nil || string(text) != "as it was" {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 6 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
