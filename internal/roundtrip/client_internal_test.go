package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

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
