package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Each caller gets its own answer or error, also of scripts that the server has to be told first.
func TestScriptsThatShareARoundTrip(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	together := Share(client)
	echo := redis.NewScript(`if ARGV[1] == "7" then return redis.error_reply("SEVEN") end return KEYS[1] .. ARGV[1]`)
	for range 3 {
		var callers sync.WaitGroup
		for i := range 300 {
			callers.Go(func() {
				got, err := echo.Run(t.Context(), together, []string{"k"}, i).Text()
				if want := fmt.Sprintf("k%d", i); i != 7 && (err != nil || got != want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				if i == 7 && (err == nil || !strings.HasSuffix(err.Error(), "SEVEN")) {
					t.Errorf("got %q, %v, want the error", got, err)
				}
			})
		}
		callers.Wait()
	}
	server.Close()
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			if got, err := echo.Run(t.Context(), together, []string{"k"}, 1).Text(); err == nil {
				t.Errorf("got %q from a server that is away", got)
			}
		})
	}
	callers.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := echo.Run(gone, together, []string{"k"}, 1).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone got %v", err)
	}
}

// What ends a task shares round trips with what ends others; what asynq asks one after the other goes alone.
func TestEndsShareRoundTrips(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	pipes := &pipes{}
	client.AddHook(pipes)
	echo := redis.NewScript(`return ARGV[1]`)
	if err := echo.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	together := ShareEnds(client, 50, nil)
	all := func(ctx context.Context, n int) {
		var callers sync.WaitGroup
		for i := range n {
			callers.Go(func() {
				if got, err := echo.Run(ctx, together, nil, i).Int(); err != nil || got != i {
					t.Errorf("%d: %d, %v", i, got, err)
				}
			})
		}
		callers.Wait()
	}
	all(t.Context(), 200)
	if n := pipes.commands.Load(); n != 0 {
		t.Errorf("%d scripts without a deadline shared a round trip", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all(ctx, 200)
	if pipes.commands.Load() < 150 || pipes.sent.Load() > 50 {
		t.Errorf("%d of 200 scripts with a deadline shared %d round trips", pipes.commands.Load(), pipes.sent.Load())
	}
	if s, ok := ShareEnds(client, 7, nil).(*shared); !ok || s.scripts.Gather != 0 || s.scripts.Enough != 0 {
		t.Error("with few slots somebody waits")
	}
}

// pipes counts pipelines, and the commands in them.
type pipes struct{ sent, commands atomic.Int64 }

func (p *pipes) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (p *pipes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if len(commands) > 0 && commands[0].Name() == "evalsha" { // and not the handshake
			p.sent.Add(1)
			p.commands.Add(int64(len(commands)))
		}
		return next(ctx, commands)
	}
}
