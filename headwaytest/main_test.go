package headwaytest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// inner is set in the program that plays what must fail: see [TestWrongPlays].
const inner = "HEADWAYTEST_WRONG_PLAYS"

func TestMain(m *testing.M) {
	if os.Getenv(inner) != "" {
		os.Exit(m.Run()) // goroutines that never end are what it shows
	}
	goleak.VerifyTestMain(m)
}
