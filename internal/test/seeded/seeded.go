// Package seeded gives tests their random numbers. The gate (`make test`, which sets -short) draws the same ones in
// each run, so that nothing goes red by chance. The night draws new ones. A red test prints how to repeat it. Rapid
// writes its counterexample below testdata: commit that file, and each run checks it first.
package seeded

import (
	"flag"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Variable names the environment variable that sets the first seed of Range, in the gate and in the night.
const Variable = "HEADWAY_FIRST_SEED"

// gate are the flags of rapid in the gate. With -short, rapid makes a fifth of the checks.
var gate = map[string]string{ //nolint:gochecknoglobals // a constant
	"rapid.seed": "1", "rapid.checks": "250", "rapid.steps": "60",
}

var fix sync.Once //nolint:gochecknoglobals // flags are global

// Check is rapid.Check. In the gate it draws from a fixed seed; flags and variables of rapid that are set stay as they
// are.
func Check(t rapid.TB, property func(*rapid.T)) {
	t.Helper()
	fix.Do(func() {
		if !testing.Short() {
			return
		}
		set := map[string]bool{}
		flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
		for name, value := range gate {
			_, inEnvironment := os.LookupEnv(strings.ToUpper(strings.ReplaceAll(name, ".", "_")))
			if set[name] || inEnvironment {
				continue
			}
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	})
	rapid.Check(t, property)
}

// Range yields n seeds, for n random histories. In the gate they begin with 0. In the night they begin with a random
// number, which a red test prints.
func Range[N int | uint64](tb testing.TB, n N) iter.Seq[uint64] {
	tb.Helper()
	first := uint64(0)
	text, given := os.LookupEnv(Variable)
	switch {
	case given:
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("%s is no seed: %v", Variable, err)
		}
	case !testing.Short():
		first = rand.Uint64N(1 << 53) //nolint:gosec // no secret
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("to repeat it: %s=%d go test -run '^%s$'", Variable, first, tb.Name())
		}
	})
	return func(yield func(uint64) bool) {
		for seed := first; seed < first+uint64(n); seed++ {
			if !yield(seed) {
				return
			}
		}
	}
}
