package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/headway-go/headway/internal/cli"
)

// open returns the batch file so that it can be read twice: once to check it, once to enqueue it. Standard input ("-") goes
// through a temporary file, so that memory stays small. Close removes it.
func open(name string, stdin io.Reader) (*os.File, func() error, error) {
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the user names the file
		if err != nil {
			return nil, nil, &cli.UsageError{Err: err}
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, nil, &cli.UsageError{Err: errors.Join(fmt.Errorf("%s is a folder", name), f.Close())}
		}
		return f, f.Close, nil
	}
	f, err := os.CreateTemp("", "headway-batch-*.jsonl")
	if err != nil {
		return nil, nil, err
	}
	closeAll := func() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
	if _, err := io.Copy(f, stdin); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read standard input: %w", err), closeAll())
	}
	if err := rewind(f); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return f, closeAll, nil
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}
