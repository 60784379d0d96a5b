package fleet

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/longtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFullDay is the day in full for `make test-all`: with -short it has two hours.
func TestFullDay(t *testing.T) { //nolint:paralleltest // the day is
	longtest.Only(t, time.Minute)
	TestNoRefusalInADay(t)
}
