package fleet

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/worker"
)

// A server of asynq that still stops panics without its client.
func TestStoresOfAnUnfinishedStopStayOpen(t *testing.T) {
	t.Parallel()
	env := map[string]string{"REDIS_URL": "redis://" + testenv.StartRedisServer(t).Addr()}
	queue, _, closeAll, err := openStores(t.Context(), cli.Environment{
		Getenv: func(k string) string { return env[k] }, Err: io.Discard,
	}, "redis", slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(fmt.Errorf("run: %w", worker.ErrLeftBehind))
	if err := queue.Ping(t.Context()).Err(); err != nil {
		t.Errorf("closed beside a server that stops: %v", err)
	}
	closeAll(nil)
	if err := queue.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("not closed: %v", err)
	}
}
