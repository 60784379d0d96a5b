// Package longtest marks the tests that `make test` leaves to `make test-all`: with -short, which `make test` sets, a
// test marked by [Only] is skipped, and one that asks [Short] runs a part of its cases.
package longtest

import (
	"testing"
	"time"
)

// Only marks tb as a test of `make test-all` that takes so long on two processors.
func Only(tb testing.TB, takes time.Duration) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("takes %v: `make test-all` runs it", takes)
	}
}

// Short reports whether tb runs a part of its cases, as all of them take so long on two processors.
func Short(tb testing.TB, takes time.Duration) bool {
	tb.Helper()
	if !testing.Short() {
		return false
	}
	tb.Logf("a part of the cases: all take %v, `make test-all` runs them", takes)
	return true
}
