package mongodocs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/documentstest"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	documentstest.Run(t, func(t *testing.T) documents.Store {
		t.Helper()
		return mongodocs.New(testenv.Database(t))
	})
}
