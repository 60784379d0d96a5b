// Package longtest marks the tests that `make test` leaves to `make test-all`.
//
// With -short, which `make test` sets, a test marked by [Only] is skipped and one that asks [Short] runs a part of
// its cases. Both are listed in the file that HEADWAY_TESTS_LEFT names: one line a test, with its folder, its
// name and the seconds it takes, separated by tabs. scripts/test counts these lines, and runs the tests in full for
// `make test-all`.
//
// HEADWAY_TESTS_UNTIL is the time, in Unix seconds, at which a run without -short has to end. A marked test that
// takes longer than what is left is skipped and listed.
package longtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	leftVariable  = "HEADWAY_TESTS_LEFT"
	untilVariable = "HEADWAY_TESTS_UNTIL"
)

// Only marks tb as a test of `make test-all` that takes so long on two processors. It is called first in a test.
func Only(tb testing.TB, takes time.Duration) {
	tb.Helper()
	if testing.Short() {
		list(tb, takes)
		tb.Skipf("takes %v: `make test-all` runs it", takes)
	}
	skipLate(tb, takes)
}

// Short reports whether tb runs a part of its cases, as all of them take so long on two processors and
// `make test-all` runs these.
func Short(tb testing.TB, takes time.Duration) bool {
	tb.Helper()
	if testing.Short() {
		list(tb, takes)
		tb.Logf("a part of the cases: all take %v, `make test-all` runs them", takes)
		return true
	}
	skipLate(tb, takes)
	return false
}

// skipLate skips a test that can't end in time.
func skipLate(tb testing.TB, takes time.Duration) {
	tb.Helper()
	text := os.Getenv(untilVariable)
	if text == "" {
		return
	}
	until, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s is %q: must be a time in Unix seconds", untilVariable, text)
	}
	if left := time.Until(time.Unix(until, 0)); left < takes {
		list(tb, takes)
		tb.Skipf("did not run: takes %v, and %v are left", takes, max(0, left.Round(time.Second)))
	}
}

// list appends tb to the file of the tests that are left. Lines are short enough to be appended by many processes.
func list(tb testing.TB, takes time.Duration) {
	tb.Helper()
	name := os.Getenv(leftVariable)
	if name == "" {
		return
	}
	folder, err := os.Getwd() // of the package, as go test has it
	if err != nil {
		tb.Fatalf("find the folder of the test: %v", err)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // named by scripts/test
	if err != nil {
		tb.Fatalf("list the test: %v", err)
	}
	top, _, _ := strings.Cut(tb.Name(), "/")
	_, err = fmt.Fprintf(file, "%s\t%s\t%.0f\n", folder, top, takes.Seconds())
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		tb.Fatalf("list the test: %v", err)
	}
}
