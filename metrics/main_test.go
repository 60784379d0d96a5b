package metrics_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents/packed"
)

func TestMain(m *testing.M) {
	// The encoder and the decoder of all records have channels, which must not belong to the first bubble.
	if _, err := packed.Unpack(packed.Pack(make([]byte, 1<<20))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
