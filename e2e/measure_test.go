package e2e_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// What is asked less strictly with -short, as a test has other tests beside it then.
const (
	// shortSlack is how much held up requests may arrive together.
	shortSlack = "-slack=500ms"
	// shortShare is the part of a wanted use that has to be used.
	shortShare = 0.6
	// shortMore is how many times as much may be lost, late or delivered again.
	shortMore = 2
)

// measures is called first by a test that measures a limit, and takes so long. The test has the machine to itself; with
// -short it runs beside others.
func measures(t *testing.T, takes time.Duration) {
	t.Helper()
	if longtest.Short(t, takes) {
		t.Parallel()
	}
}

// atMost is a bound, which is wider with -short.
func atMost(bound float64) float64 {
	if testing.Short() {
		return bound * shortMore
	}
	return bound
}

// sized is the first number with -short, else the second one.
func sized[N int | time.Duration](short, full N) N {
	if testing.Short() {
		return short
	}
	return full
}
