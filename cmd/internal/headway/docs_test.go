package headway

import (
	"testing"

	"github.com/headway-go/headway/internal/clitest"
)

func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	clitest.Documented(t, "../../..", "headway", Command)
}
