package asynqdb_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/test/memredis"
)

// Only scripts that end deliveries share round trips. asynq receives tasks one by one, and must not wait.
func TestOnlyEndsShareRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, memredis.Serve(t).Client(t))
		var pipelined atomic.Int64
		b.client.AddHook(pipelines{&pipelined})
		echo := redis.NewScript(`return ARGV[1]`)
		if err := echo.Load(t.Context(), b.client).Err(); err != nil {
			t.Fatal(err)
		}
		pipelined.Store(0)
		server := asynqdb.ForServer(b.client, asynqdb.ServerConfig{})
		all := func(ctx context.Context) {
			var callers sync.WaitGroup
			for i := range 200 {
				callers.Go(func() {
					if got, err := echo.Run(ctx, server, nil, i).Int(); err != nil || got != i {
						t.Errorf("%d: %d, %v", i, got, err)
					}
				})
			}
			callers.Wait()
		}
		all(t.Context())
		if n := pipelined.Load(); n != 0 {
			t.Errorf("%d scripts without a deadline shared a round trip", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		all(ctx)
		if n := pipelined.Load(); n < 150 {
			t.Errorf("%d of 200 scripts with a deadline shared a round trip", n)
		}
	})
}

// pipelines counts the scripts in pipelines.
type pipelines struct{ scripts *atomic.Int64 }

func (p pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (p pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, c := range commands {
			if c.Name() == "evalsha" {
				p.scripts.Add(1)
			}
		}
		return next(ctx, commands)
	}
}
