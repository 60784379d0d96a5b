package headwaytest_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/headwaytest"
)

// inner is set in the program that plays what must fail: see [TestWrongPlays].
const inner = "HEADWAYTEST_WRONG_PLAYS"

func TestMain(m *testing.M) {
	if os.Getenv(inner) != "" {
		headwaytest.SetWatch(50*time.Millisecond, 500*time.Millisecond, 2*time.Second)
		os.Exit(m.Run()) // goroutines that never end are what it shows
	}
	goleak.VerifyTestMain(m)
}
