package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/record"
)

// files are where the answers of a batch go.
type files struct{ out, errors string }

// written is what was written.
type written struct {
	Done      int `json:"done"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	Missing   int `json:"missing"` // without a line: not there yet, or of a cancelled batch and unknown
}

func (f *files) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.out, "out", "", "the `file` for the good answers, in the OpenAI Batch output format; - is standard output")
	c.Flags().StringVar(&f.errors, "errors", "", "the `file` for the requests that failed; - is standard output")
}

func (f *files) named() bool    { return f.out != "" || f.errors != "" }
func (f *files) standard() bool { return f.out == "-" || f.errors == "-" }

// checkFiles says what is wrong with the files before anything is done. Input is the one that is read, empty or "-" for none.
func (f *files) checkFiles(asJSON bool, input string) error {
	if asJSON && f.standard() {
		return &cli.UsageError{Err: errors.New("--json writes to standard output: name files with --out and --errors")}
	}
	for _, name := range []string{f.out, f.errors} {
		if name == "" || name == "-" {
			continue
		}
		folder, base := filepath.Split(name)
		if info, err := os.Stat(filepath.Join(folder, ".")); err != nil || !info.IsDir() || base == "" {
			return &cli.UsageError{Err: fmt.Errorf("%s: there is no folder %s", name, filepath.Join(folder, "."))}
		}
	}
	if input == "-" {
		input = "" // it is no file that an answer could replace
	}
	if same(f.out, f.errors) {
		return &cli.UsageError{Err: fmt.Errorf("--out and --errors: %s and %s are the same file: one would replace the other", f.out, f.errors)}
	}
	for _, name := range []string{f.out, f.errors} {
		if same(input, name) {
			return &cli.UsageError{Err: fmt.Errorf("%s is the file of the requests: the answers would replace it", name)}
		}
		if name == "" || name == "-" {
			continue
		}
		if err := cli.CheckFile(name); err != nil {
			return err
		}
	}
	return nil
}

// same says whether two names lead to one file, which may not be there yet.
func same(a, b string) bool {
	if a == "" || b == "" || a == "-" || b == "-" {
		return a != "" && a == b
	}
	ofA, err := os.Stat(a)
	ofB, failed := os.Stat(b)
	if err == nil && failed == nil {
		return os.SameFile(ofA, ofB)
	}
	return whole(a) == whole(b)
}

// whole is the path that a name leads to, as far as it is there.
func whole(name string) string {
	if target, err := os.Readlink(name); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name), target)
		}
		name = target
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil {
		return filepath.Clean(name)
	}
	return filepath.Join(folder, filepath.Base(name))
}

// write writes what there is of the results, in the order of the lines, while they are read. A file is replaced in one go at the end:
// whoever reads it has the whole old one or the whole new one.
func (f *files) write(ctx context.Context, store *batches.Store, id string, env cli.Environment) error {
	_, err := f.writeCounted(ctx, store, id, env)
	return err
}

func (f *files) writeCounted(ctx context.Context, store *batches.Store, id string, env cli.Environment) (w written, err error) {
	if !f.named() {
		return w, nil
	}
	good, err := create(f.out, cli.Data(env.Out))
	if err != nil {
		return w, err
	}
	bad, err := create(f.errors, cli.Data(env.Out))
	if err != nil {
		return w, errors.Join(err, good.drop())
	}
	if w, err = copyResults(ctx, store, id, good, bad); err != nil {
		return w, errors.Join(err, good.drop(), bad.drop())
	}
	return w, errors.Join(good.keep(), bad.keep())
}

func copyResults(ctx context.Context, store *batches.Store, id string, good, bad *replacement) (w written, err error) {
	b, err := store.Batch(ctx, id)
	if err != nil {
		return w, err
	}
	for r, err := range store.All(ctx, b.ID) {
		if err != nil {
			return w, err
		}
		line := batch.Output{ID: batch.OutputID(r.Batch, r.Line), CustomID: r.CustomID}
		to := bad
		switch {
		case r.Finished.IsZero() && b.State == batches.StateCancelled:
			line.Error = &batch.OutputError{Code: record.CodeCancelled, Message: "This request was not completed: its batch was cancelled."}
			w.Cancelled++
		case r.Finished.IsZero():
			continue
		default:
			to = describe(&line, r, good, bad, &w)
		}
		if err := to.lines.Write(line); err != nil {
			return w, err
		}
	}
	return w, nil
}

// describe fills in the output line, and says where it goes.
func describe(line *batch.Output, r batches.Result, good, bad *replacement, w *written) *replacement {
	if r.Response != nil {
		line.Response = &batch.OutputResponse{StatusCode: r.Response.StatusCode, RequestID: r.Response.RequestID, Body: r.Response.Body}
	}
	if r.Failure != nil {
		line.Error = &batch.OutputError{Code: r.Failure.Code, Message: r.Failure.Message}
	}
	if r.Failed() {
		w.Failed++
		return bad
	}
	w.Done++
	return good
}

// replacement is a file on its way to its name. One without a name takes lines and keeps none.
type replacement struct {
	file  *cli.OutFile // nil for standard output, and without a name
	lines *batch.Writer
}

// create begins a file.
func create(name string, stdout io.Writer) (*replacement, error) {
	switch name {
	case "":
		return &replacement{lines: batch.NewWriter(io.Discard)}, nil
	case "-":
		return &replacement{lines: batch.NewWriter(stdout)}, nil
	}
	f, err := cli.CreateFile(name)
	if err != nil {
		return nil, err
	}
	return &replacement{file: f, lines: batch.NewWriter(f)}, nil
}

// keep puts the file in its place.
func (r *replacement) keep() error {
	if err := r.lines.Flush(); err != nil {
		return errors.Join(err, r.drop())
	}
	if r.file == nil {
		return nil
	}
	return r.file.Keep()
}

// drop leaves what was there as it was.
func (r *replacement) drop() error {
	if r.file == nil {
		return nil
	}
	return r.file.Drop()
}
