package metrics_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents/packed"
)

func TestMain(m *testing.M) {
	packed.Prepare()
	goleak.VerifyTestMain(m)
}
