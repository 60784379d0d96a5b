package enqueue

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/cli"
)

func resultsCommand(env cli.Environment) *cobra.Command {
	var t target
	var f files
	var asJSON bool
	c := &cobra.Command{
		Use:   "results BATCH",
		Short: "Write the answers of a batch to files, as far as they are there",
		Long: `Results writes what is there of the answers, at any time and as often as you like, in the OpenAI Batch
output format and in the order of the lines: good ones to --out, others to --errors. They are read one by one; a file is
replaced when the new one is whole.

Of a batch that was cancelled, each request without an answer has a line in --errors, with the code batch_cancelled.
Requests whose lines were never enqueued because the enqueuer died are not known; how many is said on standard error.

The exit code is 0 also if requests failed: --json says how many. A stored result that can't be read has a line in
--errors, and the exit code is 1.`,
		Example: `  headway results 3f2a --out answers.jsonl --errors errors.jsonl
  headway results 3f2a --out - | jq .response.body.usage`,
		Args: cli.Named("one BATCH, as `headway status` lists them"),
	}
	t.configFlag(c)
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print how many lines were written as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !f.named() {
			return cli.Usage("name a file with --out, with --errors, or both")
		}
		if err := f.checkFiles(asJSON, "", t.file); err != nil {
			return err
		}
		s, b, err := t.openBatch(c.Context(), env, args[0])
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		if err = f.notInput(c.Context(), b.Hash); err != nil {
			return err
		}
		w, err := f.write(c.Context(), s.Batches, b.ID, env)
		if err != nil && w.Unreadable == 0 {
			return err
		}
		w.Missing = max(0, b.Requests-w.Done-w.Failed-w.Cancelled-w.Unreadable)
		if w.Missing > 0 && b.State == batches.StateCancelled {
			cli.Warn(env, "%d requests of the cancelled batch have no line: they still run, or their lines were never "+
				"enqueued, and nothing is known of them", w.Missing)
		}
		out := env.Out
		if f.standard() {
			out = env.Err
		}
		return errors.Join(err, cli.Print(out, asJSON, w, fmt.Sprintf("batch %s: %d answers, %d failed, %d cancelled, "+
			"%d not there yet, of %d requests", b.ID, w.Done, w.Failed, w.Cancelled, w.Missing, b.Requests)))
	}
	return c
}

// files name where the answers of a batch are written.
type files struct{ out, errors string }

// written counts the lines that were written.
type written struct {
	Done      int `json:"done"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	// Unreadable are results that can't be read: documents that were damaged. Their lines are in --errors.
	Unreadable int   `json:"unreadable,omitempty"`
	Missing    int   `json:"missing"` // without a line: without an answer yet, or unknown, of a cancelled batch
	first      error // why the first of the unreadable ones is one
}

// fault says which results can't be read; nil if there are none. The files have all others.
func (w written) fault() error {
	if w.Unreadable == 0 {
		return nil
	}
	return fmt.Errorf("%s can't be read, and the files have the others; the first: %w",
		cli.Plural(w.Unreadable, "stored result", "stored results"), w.first)
}

func (f *files) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.out, "out", "",
		"the `file` for the good answers, in the OpenAI Batch output format; - is standard output")
	c.Flags().StringVar(&f.errors, "errors", "", "the `file` for the requests that failed; - is standard output")
}

func (f *files) named() bool    { return f.out != "" || f.errors != "" }
func (f *files) standard() bool { return f.out == "-" || f.errors == "-" }

// checkFiles returns what is wrong with the files before anything is done. Input is the file of the requests, and
// settings that of the limits, empty for none; "-" is standard input.
func (f *files) checkFiles(asJSON bool, input, settings string) error {
	if asJSON && f.standard() {
		return cli.Usage("--json writes to standard output: name files with --out and --errors")
	}
	if input == "-" {
		input = "" // no file that an answer could replace
	}
	if same(f.out, f.errors) {
		return cli.Usage("--out and --errors: %s and %s are the same file: one would replace the other", f.out, f.errors)
	}
	for _, name := range []string{f.out, f.errors} {
		if name == "" || name == "-" {
			continue
		}
		folder, base := filepath.Split(name)
		if info, err := os.Stat(filepath.Join(folder, ".")); err != nil || !info.IsDir() || base == "" {
			return cli.Usage("%s: there is no folder %s", name, filepath.Join(folder, "."))
		}
		if same(input, name) {
			return cli.Usage("%s is the file of the requests: the answers would replace it", name)
		}
		if same(settings, name) {
			return cli.Usage("%s is the file of the limits: the answers would replace it", name)
		}
		if err := cli.CheckFile(name); err != nil {
			return err
		}
	}
	return nil
}

// notInput refuses to replace a file that has the requests of the batch.
func (f *files) notInput(ctx context.Context, hash string) error {
	for _, name := range []string{f.out, f.errors} {
		if info, err := os.Stat(name); name == "" || name == "-" || err != nil || !info.Mode().IsRegular() {
			continue
		}
		there, err := open(ctx, name, nil)
		if err != nil {
			continue // it is no file of requests
		}
		content := newContent()
		_, err = io.Copy(content, there.file)
		if err = errors.Join(err, there.file.Close()); err == nil && content.sum() == hash {
			return cli.Usage("%s has the requests of this batch: the answers would replace it", name)
		}
	}
	return nil
}

// same says whether two names lead to one file, which need not exist yet.
func same(a, b string) bool {
	if a == "" || b == "" || a == "-" || b == "-" {
		return a != "" && a == b
	}
	ofA, err := os.Stat(a)
	ofB, failed := os.Stat(b)
	if err == nil || failed == nil {
		return err == nil && failed == nil && os.SameFile(ofA, ofB)
	}
	return filepath.Base(a) == filepath.Base(b) && same(filepath.Dir(a), filepath.Dir(b))
}

const outputBuffer = 64 << 10 // bytes

// write writes the results so far, in the order of the lines, while they are read. A file is replaced at the end, so
// that a reader finds the whole old one or the whole new one.
func (f *files) write(
	ctx context.Context, store *batches.Store, id string, env cli.Environment,
) (w written, err error) {
	if !f.named() {
		return w, nil
	}
	good, err := cli.CreateFile(f.out, cli.Data(env.Out))
	if err != nil {
		return w, err
	}
	bad, err := cli.CreateFile(f.errors, cli.Data(env.Out))
	if err != nil {
		return w, errors.Join(err, good.Drop())
	}
	answers, failures := bufio.NewWriterSize(good, outputBuffer), bufio.NewWriterSize(bad, outputBuffer)
	w, err = copyResults(ctx, store, id, answers, failures)
	if err = errors.Join(err, answers.Flush(), failures.Flush()); err != nil {
		return w, errors.Join(err, good.Drop(), bad.Drop())
	}
	return w, errors.Join(good.Keep(), bad.Keep(), w.fault())
}

func copyResults(ctx context.Context, store *batches.Store, id string, good, bad *bufio.Writer) (w written, err error) {
	b, err := store.Batch(ctx, id)
	if err != nil {
		return w, err
	}
	for r, err := range store.All(ctx, b.ID) {
		malformed := errors.Is(err, batches.ErrMalformed)
		if err != nil && !malformed {
			return w, err
		}
		to := bad
		switch {
		case malformed:
			w.Unreadable++
			w.first = cmp.Or(w.first, err)
			if r.Line == 0 {
				continue // it is no request
			}
			r.Failure = &batches.Failure{Code: record.CodeFailed, Message: err.Error()}
		case r.Finished.IsZero() && b.State == batches.StateCancelled:
			r.Failure = record.Cancelled()
			w.Cancelled++
		case r.Finished.IsZero():
			continue
		case r.Failed():
			w.Failed++
		default:
			to = good
			w.Done++
		}
		if _, err := to.Write(batch.AppendOutput(to.AvailableBuffer(), r)); err != nil {
			return w, fmt.Errorf("write the answers: %w", err)
		}
	}
	return w, nil
}
