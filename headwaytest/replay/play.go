package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a test that is built.
type program struct {
	options

	dir    string // its temporary files
	binary string
	folder string // of the package, where its tests run
	path   string // of the package
	tests  []string
	sub    string // what comes after the first slash of -run, with the slash
}

// build builds the test with the changed library, and lists its tests.
func build(ctx context.Context, dir string, o options) (*program, error) {
	p := &program{options: o, dir: dir, binary: filepath.Join(dir, "test")}
	env, err := goCommand(ctx, "env", "GOROOT", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return nil, err
	}
	of := strings.Split(env, "\n")
	if len(of) != 4 || of[1] != goVersion && !strings.HasPrefix(of[1], goVersion+".") {
		return nil, fmt.Errorf("this is Go %q, must be %s: the patches of overlay.go are for that version", of, goVersion)
	}
	if of[2] != "linux" || of[3] != runtime.GOARCH {
		return nil, fmt.Errorf("this is %s/%s, must be linux/%s", of[2], of[3], runtime.GOARCH)
	}
	found, err := goCommand(ctx, "list", "-f", "{{.Dir}}\n{{.ImportPath}}", o.pkg)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(found, "\n")
	if len(lines) != 2 {
		return nil, fmt.Errorf("%s is %d packages, must be one", o.pkg, len(lines)/2)
	}
	p.folder, p.path = lines[0], lines[1]
	overlay, err := writeOverlay(dir, filepath.Join(of[0], "src"))
	if err != nil {
		return nil, err
	}
	args := []string{"test", "-vet=off", "-overlay", overlay, "-c", "-o", p.binary}
	if o.race {
		args = append(args, "-race")
	}
	if _, err = goCommand(ctx, append(args, o.pkg)...); err != nil {
		return nil, err
	}
	if _, err = os.Stat(p.binary); err != nil {
		return nil, fmt.Errorf("%s has no tests", o.pkg)
	}
	return p, p.list(ctx)
}

// goCommand runs the command go and returns what it prints.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the user names the package
	cmd.Env = append(os.Environ(), "GOAMD64=v1")   // v3 rounds other floating-point numbers
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// list lists the tests that -run names.
func (p *program) list(ctx context.Context) error {
	first, sub, _ := strings.Cut(p.run, "/")
	if sub != "" {
		p.sub = "/" + sub
	}
	if first == "" {
		first = "."
	}
	cmd := exec.CommandContext(ctx, p.binary, "-test.list", first) //nolint:gosec // built above
	cmd.Dir, cmd.Stderr = p.folder, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the tests: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") {
			p.tests = append(p.tests, name)
		}
	}
	if len(p.tests) == 0 {
		return fmt.Errorf("no test of %s matches %q", p.pkg, p.run)
	}
	return nil
}

// result is what became of one test with one seed.
type result struct {
	test   string
	seed   uint64
	err    error
	out    []byte
	took   time.Duration
	trace  string // the file with its trace, of no lines for a test without a fleet
	hashed string
	lines  int
}

// play runs all tests with all seeds, and reports them in their order.
func (p *program) play(ctx context.Context, out io.Writer) error {
	began := time.Now()
	var all []*result
	ready := make([]chan struct{}, 0, len(p.seeds)*len(p.tests))
	for _, seed := range p.seeds {
		for _, test := range p.tests {
			all, ready = append(all, &result{test: test, seed: seed}), append(ready, make(chan struct{}))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	next := make(chan int)
	var players sync.WaitGroup
	for range p.jobs {
		players.Go(func() {
			for i := range next {
				p.playOne(ctx, filepath.Join(p.dir, strconv.Itoa(i)), all[i])
				close(ready[i])
			}
		})
	}
	players.Go(func() {
		defer close(next)
		for i := range all {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	defer players.Wait()
	defer cancel()
	red := 0
	for i, r := range all {
		select {
		case <-ready[i]:
		case <-ctx.Done():
			return fmt.Errorf("after %d of %d: %w", i, len(all), ctx.Err())
		}
		if r.err != nil {
			red++
		}
		if err := p.report(out, r); err != nil {
			return err
		}
		*r = result{hashed: r.hashed, seed: r.seed}
	}
	return p.end(out, all, red, time.Since(began))
}

// playOne runs one test with one seed.
func (p *program) playOne(ctx context.Context, dir string, r *result) {
	if r.err = os.Mkdir(dir, 0o700); r.err != nil {
		return
	}
	// The time-out of package testing is a timer, and no timer runs beside a bubble that computes for ever.
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	args := []string{"-test.run", "^" + r.test + "$" + p.sub, "-test.parallel=1", "-test.timeout=0"}
	if p.verbose {
		args = append(args, "-test.v")
	}
	cmd := exec.CommandContext(ctx, p.binary, append(args, p.args...)...) //nolint:gosec // as above
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "HEADWAY_SEED="+strconv.FormatUint(r.seed, 10), "TMPDIR="+dir, "HEADWAY_TRACE=",
		"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=off",
		// Hashes of maps and math.Exp are as on a machine without these instructions.
		"GODEBUG=asyncpreemptoff=1,cpu.aes=off,cpu.fma=off")
	if p.traced() {
		r.trace = filepath.Join(dir, "trace")
		cmd.Env = append(cmd.Env, "HEADWAY_TRACE="+r.trace)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // prints all goroutines
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	r.out, r.err = cmd.CombinedOutput()
	r.took = time.Since(began)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.err = fmt.Errorf("it has not ended within %v", p.timeout)
	}
	if !p.traced() {
		_ = os.RemoveAll(dir) // within a folder of our own
		return
	}
	b, err := os.ReadFile(r.trace)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.err = errors.Join(r.err, err)
	}
	sum := sha256.Sum256(b)
	r.hashed, r.lines = hex.EncodeToString(sum[:8]), bytes.Count(b, []byte("\n"))
	if p.trace == "" {
		_ = os.RemoveAll(dir) // as above
	}
}

// traced reports whether tests write their traces.
func (p *program) traced() bool { return p.hash || p.trace != "" || len(p.seeds) == 1 }

// report reports one test.
func (p *program) report(out io.Writer, r *result) error {
	if p.trace != "" {
		if err := p.keep(r); err != nil {
			return err
		}
	}
	state := "ok  "
	if r.err != nil {
		state = "FAIL"
	}
	if r.err == nil && !p.traced() && !p.verbose {
		return nil
	}
	line := fmt.Sprintf("%s\t%s%s\tseed %d\t%.2fs", state, r.test, p.sub, r.seed, r.took.Seconds())
	if p.traced() {
		line += fmt.Sprintf("\ttrace %s, %d lines", r.hashed, r.lines)
	}
	_, _ = fmt.Fprintln(out, line)
	if r.err != nil || p.verbose {
		_, _ = fmt.Fprintf(out, "%s\n", bytes.TrimSpace(r.out))
	}
	if r.err != nil {
		_, _ = fmt.Fprintf(out, "FAIL: %v. Again, with its trace: %s\n", r.err, p.again(r))
	}
	return nil
}

// keep adds the trace of a test to the file of all.
func (p *program) keep(r *result) error {
	b, err := os.ReadFile(r.trace)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the trace: %w", err)
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if r.test == p.tests[0] {
		flags = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	file, err := os.OpenFile(p.trace, flags, 0o600)
	if err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	_, err = file.Write(b)
	if err = errors.Join(err, file.Close(), os.RemoveAll(filepath.Dir(r.trace))); err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	return nil
}

// again is the command that runs a test again.
func (p *program) again(r *result) string {
	var words []string
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "HEADWAY_") && name != "HEADWAY_SEED" && name != "HEADWAY_TRACE" && value != "" {
			words = append(words, name+"="+quote(value))
		}
	}
	words = append(words, "go", "run", self(), "-seed", strconv.FormatUint(r.seed, 10),
		"-trace", fmt.Sprintf("%s-%d.trace", r.test, r.seed), "-run", quote("^"+r.test+"$"+p.sub))
	if p.race {
		words = append(words, "-race")
	}
	words = append(words, p.pkg)
	for _, a := range p.args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

// plain is a word that a shell leaves as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./=:,@%+-]+$`)

// quote returns a word for a shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// end reports all tests.
func (p *program) end(out io.Writer, all []*result, red int, took time.Duration) error {
	state, of := "ok  ", fmt.Sprintf("%d tests", len(p.tests))
	if len(p.seeds) == 1 {
		of += fmt.Sprintf(", seed %d", p.seeds[0])
	} else {
		of += fmt.Sprintf(", %d seeds", len(p.seeds))
	}
	if red > 0 {
		state = "FAIL"
		of += fmt.Sprintf(", %d of %d failed", red, len(all))
	}
	line := fmt.Sprintf("%s\t%s\t%.3fs\t%s", state, p.path, took.Seconds(), of)
	if p.traced() {
		sum := sha256.New()
		for _, r := range all {
			_, _ = fmt.Fprintln(sum, r.hashed)
		}
		line += fmt.Sprintf(", all traces %x", sum.Sum(nil)[:8])
	}
	if p.trace != "" {
		line += ", in " + p.trace
	}
	_, _ = fmt.Fprintln(out, line)
	if red > 0 {
		return errRed
	}
	return nil
}

// self is the path of this command for go run.
func self() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Path == "" || info.Path == "command-line-arguments" {
		return "github.com/headway-go/headway/headwaytest/replay"
	}
	return info.Path
}
