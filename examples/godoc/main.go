// Command godoc writes about 400 chat requests in the OpenAI Batch input format. It makes them from the documentation
// of Go's standard library: one for each package, and one for each of many types. Sizes vary with the documentation.
//
//	go run ./examples/godoc -o examples/godoc.jsonl
//
// The output depends only on the version of Go, which is part of every system prompt.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "godoc:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("godoc", flag.ContinueOnError)
	flags.SetOutput(stderr)
	output := flags.String("o", "", "`file` to write; defaults to standard output")
	count := flags.Int("n", 400, "number of requests")
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *count < 1 {
		return fmt.Errorf("-n must be at least 1, but is %d", *count)
	}
	subjects, err := subjectsOf(filepath.Join(build.Default.GOROOT, "src"))
	if err != nil {
		return fmt.Errorf("read the standard library: %w", err)
	}
	var text bytes.Buffer
	if err = write(&text, choose(subjects, *count), runtime.Version()); err != nil {
		return err
	}
	if *output == "" {
		_, err = stdout.Write(text.Bytes())
		return err
	}
	file, err := os.Create(*output)
	if err != nil {
		return err
	}
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}

// write writes one request for each subject.
func write(w io.Writer, subjects []subject, version string) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for _, s := range subjects {
		if err := lines.Encode(requestOf(s, version)); err != nil {
			return fmt.Errorf("write %s: %w", s.id, err)
		}
	}
	return out.Flush()
}
