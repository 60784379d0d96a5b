package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/memredis"
)

// inMemory are the Redis in memory of the tests, *memredis.Redis by their REDIS_URL.
var (
	inMemory sync.Map
	memories atomic.Int64
)

// memory returns the environment of commands that share a Redis in memory, which has their records and buckets too. It
// serves testing/synctest bubbles.
func memory(t *testing.T) (map[string]string, *memredis.Redis) {
	t.Helper()
	n := memories.Add(1)
	server, url := memredis.New(t), fmt.Sprintf("redis://127.1.%d.%d:1/0", n/256, n%256)
	inMemory.Store(url, server)
	t.Cleanup(func() { inMemory.Delete(url) })
	return map[string]string{"REDIS_URL": url}, server
}

// contextOf is the context of a command in this environment.
func contextOf(t *testing.T, env map[string]string) context.Context {
	t.Helper()
	if server, ok := inMemory.Load(env["REDIS_URL"]); ok {
		return connect.WithDial(t.Context(), server.(*memredis.Redis).Dial)
	}
	return t.Context()
}
