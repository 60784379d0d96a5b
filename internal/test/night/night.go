// Package night marks the tests that the gate (`make test`) leaves to the night (`make nightly`). The gate sets -short:
// a test marked by [Only] is skipped there, and a test that asks [Part] runs a part of its cases. A test is marked
// because it takes long, or because it needs what the gate has not: a compiler, a browser, a machine that is not busy.
package night

import "testing"

// Only marks tb as a test of the night, and says why the gate does without it.
func Only(tb testing.TB, why string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("`make nightly` runs it: " + why)
	}
}

// Part reports whether tb runs a part of its cases, and says why the gate does without the others.
func Part(tb testing.TB, why string) bool {
	tb.Helper()
	if testing.Short() {
		tb.Log("`make nightly` runs all cases: " + why)
	}
	return testing.Short()
}
