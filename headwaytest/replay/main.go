// Command replay runs tests such that a seed decides every order in a bubble of testing/synctest, so in each fleet of
// package headwaytest. It orders goroutines, cases of select, timers and maps, and draws all random numbers. A seed has
// the same trace, on an idle machine and on a busy one.
//
// The flag -seed 42 runs one seed, -seeds 1-200 runs many. The flag -trace writes the trace of one seed, and -compare
// compares two traces. docs/testing.md shows the commands.
//
// Each test runs in a process of its own, so its trace depends on no other test. For a test that fails, replay prints
// the command that runs it again with its trace. Arguments after the package go to the test.
//
// It builds the test with some changes of Go's library, by the flag -overlay of go test: so it is for one version of
// Go, which it checks, on Linux. The first build compiles the library, which takes a minute or two.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errRed is why replay fails where tests have failed, which it has reported.
var errRed = errors.New("tests failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.Is(err, errRed):
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "replay: %v\n", err)
		os.Exit(2)
	}
}

// options are the flags and arguments.
type options struct {
	seeds   []uint64
	run     string
	race    bool
	hash    bool
	verbose bool
	trace   string
	jobs    int
	timeout time.Duration
	pkg     string
	args    []string // of the test

	compare bool
	files   []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	switch {
	case err != nil:
		return err
	case o.compare:
		return compareFiles(o.files[0], o.files[1], out)
	}
	dir, err := os.MkdirTemp("", "headway-replay-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a folder of its own
	p, err := build(ctx, dir, o)
	if err != nil {
		return err
	}
	return p.play(ctx, out)
}

func parse(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(out)
	seed := f.Uint64("seed", 0, "one `seed`: each test is reported with the hash of its trace")
	seeds := f.String("seeds", "", "`seeds`, as 1-200 or 3,7,20-30: tests that fail are reported")
	f.StringVar(&o.run, "run", "", "the tests, as -run of go test")
	f.BoolVar(&o.race, "race", false, "with the race detector")
	f.BoolVar(&o.hash, "hash", false, "with the hash of each trace, also for several seeds")
	f.BoolVar(&o.verbose, "v", false, "the output of each test")
	f.StringVar(&o.trace, "trace", "", "the `file` that gets the trace of one seed")
	f.IntVar(&o.jobs, "j", 1, "the processes that run beside each other")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "the real time after which a test has failed")
	f.BoolVar(&o.compare, "compare", false, "show the first place where two traces differ")
	f.Usage = func() {
		_, _ = fmt.Fprint(out, "usage: replay -seed N|-seeds LIST [flags] PACKAGE [flags of the test]\n"+
			"       replay -compare TRACE TRACE\n")
		f.PrintDefaults()
	}
	if err = f.Parse(args); err != nil {
		return o, flag.ErrHelp // Parse has reported the error
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.compare {
		if o.files = f.Args(); len(o.files) != 2 {
			return o, fmt.Errorf("-compare has %d files, must be two", len(o.files))
		}
		return o, nil
	}
	switch {
	case f.NArg() == 0:
		return o, errors.New("no package is named: replay -seed 42 ./mypackage")
	case given["seed"] == given["seeds"]:
		return o, errors.New("there must be one of -seed and -seeds")
	case o.jobs < 1:
		return o, fmt.Errorf("-j is %d, must be 1 or more", o.jobs)
	}
	o.pkg, o.args = f.Arg(0), f.Args()[1:]
	if o.seeds = []uint64{*seed}; given["seeds"] {
		if o.seeds, err = parseSeeds(*seeds); err != nil {
			return o, err
		}
	}
	if len(o.seeds) > 1 && o.trace != "" {
		return o, errors.New("-trace is for one seed")
	}
	if o.trace != "" {
		if o.trace, err = filepath.Abs(o.trace); err != nil {
			return o, fmt.Errorf("find the file of -trace: %w", err)
		}
	}
	return o, nil
}

// mostSeeds bounds a list of seeds.
const mostSeeds = 1_000_000

// parseSeeds reads a list such as 3,7,20-30.
func parseSeeds(list string) (seeds []uint64, err error) {
	for part := range strings.SplitSeq(list, ",") {
		begin, end, isRange := strings.Cut(part, "-")
		if !isRange {
			end = begin
		}
		first, err := parseSeed(begin)
		last, wrong := parseSeed(end)
		if err != nil || wrong != nil || last < first || last-first >= mostSeeds-uint64(len(seeds)) {
			return nil, fmt.Errorf("-seeds is %q, must be numbers and ranges as 3,7,20-30, at most %d seeds", list, mostSeeds)
		}
		for n := range last - first + 1 {
			seeds = append(seeds, first+n)
		}
	}
	return seeds, nil
}

func parseSeed(text string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSpace(text), 10, 64) //nolint:wrapcheck // its caller says what is wrong
}
