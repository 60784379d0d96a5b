package redisdocs_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/documentstest"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	documentstest.Run(t, connect)
}

// The Redis of `headway dev`.
func TestStoreInEmbeddedRedis(t *testing.T) {
	t.Parallel()
	documentstest.Run(t, inProcess)
}

func connect(t *testing.T) documents.Store {
	t.Helper()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return redisdocs.New(client)
}

func inProcess(t *testing.T) documents.Store {
	t.Helper()
	client := memredis.Start(t)
	return redisdocs.New(client)
}
