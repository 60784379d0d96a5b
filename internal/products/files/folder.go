package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"time"

	"github.com/headway-go/headway/internal/documents"
)

// names are the contents in a folder. Other files there are not touched.
var names = regexp.MustCompile(`^file-[a-z0-9]{26}$`)

// folder has a file for each content. The file was changed last when the content expires, or when a part of an
// unfinished one came.
type folder struct {
	root *os.Root
	now  func() time.Time
}

// InFolder returns contents in a folder, which it makes. Several machines may share it. Nil as the clock means
// time.Now.
func InFolder(path string, now func() time.Time) (Contents, error) {
	if now == nil {
		now = time.Now
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the files: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the files: %w", err)
	}
	return folder{root, now}, nil
}

func (f folder) Close() error { return f.root.Close() }

func (f folder) Create(_ context.Context, id string, from io.Reader) (size int64, err error) {
	file, err := f.root.OpenFile(id, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("store a file: %w", err)
	}
	if size, err = io.Copy(file, from); err == nil {
		err = file.Sync()
	}
	return size, errors.Join(err, file.Close())
}

func (f folder) Open(_ context.Context, id string, size int64) (io.ReadCloser, error) {
	file, err := f.root.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not in the folder of this gateway", ErrNoContent, id)
	}
	if err != nil {
		return nil, fmt.Errorf("read a file: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("%w: %s has %d of %d bytes", ErrNoContent, id, info.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f folder) Expire(_ context.Context, id string, at time.Time) (err error) {
	if at.After(f.now()) {
		err = f.root.Chtimes(id, at, at)
	} else {
		err = f.root.Remove(id)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f folder) Sweep(context.Context) error {
	dir, err := f.root.Open(".")
	if err != nil {
		return fmt.Errorf("read the folder of the files: %w", err)
	}
	defer func() { _ = dir.Close() }()
	for {
		some, err := dir.ReadDir(documents.Page)
		for _, entry := range some {
			info, failed := entry.Info()
			if failed == nil && names.MatchString(entry.Name()) && f.now().Sub(info.ModTime()) > unfinished {
				_ = f.root.Remove(entry.Name()) // the next sweep deletes what stays
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the folder of the files: %w", err)
		}
	}
}
