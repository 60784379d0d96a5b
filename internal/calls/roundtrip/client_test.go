package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/calls/roundtrip"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
)

// away returns a client of a Redis in memory at a distance, and the wire between them. It tries nothing again.
func away(t *testing.T) (*redis.Client, *network.Wire) {
	t.Helper()
	wire := network.New(network.NewConditions(1, 1, time.Millisecond, 2*time.Millisecond), memredis.Open(t).Serve)
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: wire.Dial, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client, wire
}

// Each caller gets its own answer or error, even if the server has not cached the script yet.
func TestScriptsThatShareARoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, scriptsThatShareARoundTrip)
}

func scriptsThatShareARoundTrip(t *testing.T) {
	client, wire := away(t)
	together := roundtrip.Share(client)
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
	wire.Set(network.Refuse)
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
		t.Errorf("a caller whose context had ended got %v", err)
	}
}

// Scripts that run at the same time share round trips.
func TestScriptsShareRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, scriptsShareRoundTrips)
}

func scriptsShareRoundTrips(t *testing.T) {
	client, _ := away(t)
	pipes := &pipes{}
	client.AddHook(pipes)
	echo := redis.NewScript(`return ARGV[1]`)
	if err := echo.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	shared := roundtrip.Share(client)
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			if got, err := echo.Run(t.Context(), shared, nil, i).Int(); err != nil || got != i {
				t.Errorf("%d: %d, %v", i, got, err)
			}
		})
	}
	callers.Wait()
	if pipes.commands.Load() < 150 || pipes.sent.Load() > 50 {
		t.Errorf("%d of 200 scripts shared %d round trips", pipes.commands.Load(), pipes.sent.Load())
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
