package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OutFile is an output of a command: a file, standard output, or nothing. Until Keep, the file has a temporary name
// in the same folder. So a reader finds the whole old file or the whole new one. Commands write all their files in
// this way.
type OutFile struct {
	io.Writer

	file *os.File // nil for standard output and for nothing
	name string
	mode fs.FileMode // of the replaced file; zero for a new file, whose mode follows the umask
}

// CreateFile begins a file. "-" is stdout, and an empty name discards the output. The error is a *UsageError if
// CheckFile returns one, or if no file can be created in the folder.
func CreateFile(name string, stdout io.Writer) (*OutFile, error) {
	switch name {
	case "":
		return &OutFile{Writer: io.Discard}, nil
	case "-":
		return &OutFile{Writer: stdout}, nil
	}
	if err := CheckFile(name); err != nil {
		return nil, err
	}
	f, mode := &OutFile{name: name}, fs.FileMode(0o666) // minus the umask
	if info, err := os.Lstat(name); err == nil {
		f.mode, mode = info.Mode().Perm(), 0o600 // private until Keep, as the replaced file may be
	}
	folder, base := filepath.Split(name)
	part := filepath.Join(folder, fmt.Sprintf(".%.100s.%s.part", base, rand.Text()))
	//nolint:gosec // the user names it
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	f.Writer, f.file = file, file
	return f, nil
}

// CheckFile returns an error if a file can't replace the name: a folder, any link, a device, a pipe or a socket.
func CheckFile(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &UsageError{Err: err}
	case info.IsDir():
		return Usage("%s is a folder", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return Usage("%s is a link: name its target", name)
	case !info.Mode().IsRegular():
		return Usage("%s is a device, a pipe or a socket: name a file, or - for standard output", name)
	}
	return nil
}

// Keep renames the file to its own name.
func (f *OutFile) Keep() error {
	if f.file == nil {
		return nil
	}
	var err error
	if f.mode != 0 {
		err = f.file.Chmod(f.mode)
	}
	err = errors.Join(err, f.file.Sync(), f.file.Close())
	if err == nil {
		err = os.Rename(f.file.Name(), f.name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.name, err), os.Remove(f.file.Name()))
	}
	return nil
}

// Drop deletes the temporary file. An old file stays unchanged.
func (f *OutFile) Drop() error {
	if f.file == nil {
		return nil
	}
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}
