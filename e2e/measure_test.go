package e2e_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// The bounds with -short are wider, because other tests run at the same time.
const (
	// shortSlack is the provider's slack for delayed requests.
	shortSlack = "-slack=500ms"
	// shortShare is the required part of a wanted usage.
	shortShare = 0.6
	// shortMore is the factor for losses, lateness and deliveries.
	shortMore = 2
)

// measures must be the first call of a test that measures a limit. The test takes that long, and runs alone; with
// -short it runs in parallel.
func measures(t *testing.T, takes time.Duration) {
	t.Helper()
	if longtest.Short(t, takes) {
		t.Parallel()
	}
}

// atMost returns a bound, which is wider with -short.
func atMost(bound float64) float64 {
	if testing.Short() {
		return bound * shortMore
	}
	return bound
}
