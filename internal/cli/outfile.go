package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OutFile is a file that a command writes. Until Keep it has another name beside its own, so that a reader finds the whole old file or the
// whole new one. All files that commands write are made here.
type OutFile struct {
	*os.File

	name string
	mode fs.FileMode // of the file that is replaced; zero for a new one, which goes by the umask
}

// CreateFile begins a file. The error is a *UsageError where CheckFile has one, or the folder takes no file.
func CreateFile(name string) (*OutFile, error) {
	if err := CheckFile(name); err != nil {
		return nil, err
	}
	f, mode := &OutFile{name: name}, fs.FileMode(0o666) // less the umask
	if info, err := os.Lstat(name); err == nil {
		f.mode, mode = info.Mode().Perm(), 0o600 // until Keep: no more people may read it than the file that it replaces
	}
	folder, base := filepath.Split(name)
	part := filepath.Join(folder, fmt.Sprintf(".%.100s.%s.part", base, rand.Text()))
	var err error
	f.File, err = os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // the user names it
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	return f, nil
}

// CheckFile refuses what is no file that can be replaced: a folder, a link, whatever it leads to, a device, a pipe or a socket.
func CheckFile(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &UsageError{Err: err}
	case info.IsDir():
		return &UsageError{Err: fmt.Errorf("%s is a folder", name)}
	case info.Mode()&fs.ModeSymlink != 0:
		return &UsageError{Err: fmt.Errorf("%s is a link: name the file that it leads to", name)}
	case !info.Mode().IsRegular():
		return &UsageError{Err: fmt.Errorf("%s is a device, a pipe or a socket: name a file, or - for standard output", name)}
	}
	return nil
}

// Keep puts the file in its place.
func (f *OutFile) Keep() error {
	var err error
	if f.mode != 0 {
		err = f.Chmod(f.mode)
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.name, err), os.Remove(f.Name()))
	}
	return nil
}

// Drop leaves what was there as it was.
func (f *OutFile) Drop() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
