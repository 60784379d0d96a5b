package redisstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// inBubble returns clients of one server in memory, for a test in a synctest bubble.
func inBubble(t *testing.T) (client func() *redis.Client) {
	t.Helper()
	<-time.After(10 * 366 * 24 * time.Hour) // bubbles begin in 2000, when times have a digit less
	server := embedded.New()
	t.Cleanup(server.Close)
	return func() *redis.Client {
		c := redis.NewClient(&redis.Options{
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				server.Serve(there)
				return here, nil
			},
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// A process that wrote last decides without a read, for a second. What another process writes is never overlooked.
func TestALoneProcessSendsOneScriptACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		connect := inBubble(t)
		client := connect()
		store, err := redisstore.OpenNew(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		rival, err := redisstore.Open(t.Context(), connect())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			apply(t, store, daily(), allow(1))
		}
		var sent atomic.Int64
		client.AddHook(hook{func(redis.Cmder) { sent.Add(1) }})
		for range 20 {
			apply(t, store, daily(), allow(1))
			<-time.After(900 * time.Millisecond)
		}
		if n := sent.Swap(0); n != 20 {
			t.Errorf("20 calls sent %d scripts", n)
		}
		<-time.After(time.Second) // its memory is too old
		if apply(t, store, daily(), allow(1)); sent.Load() != 2 {
			t.Errorf("a second later a call sent %d scripts, want a read and a swap", sent.Load())
		}
		started := 24
		for i := range 100 {
			from := reservations.Store(store)
			if i%3 == 0 {
				from = rival
			}
			if apply(t, from, daily(), allow(1)).Started() {
				started++
			}
		}
		if started != 100 {
			t.Errorf("%d of 100 tokens started", started)
		}
	})
}

// In a Redis that the program has just started, nothing is to be waited for. One that lost a call that runs waits.
func TestOpenNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inBubble(t)()
		slots := reservations.Limit{Name: "slots", Meters: []reservations.Meter{reservations.InFlight(1)}}
		limiter := func(store *redisstore.Store, err error) *reservations.Limiter {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			l, err := reservations.New(store, []reservations.Limit{slots}, reservations.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := limiter(redisstore.OpenNew(t.Context(), client))
		if g, refused := l.Allow(t.Context(), reservations.Charge{Limit: "slots"}); refused != nil || !g.Started() {
			t.Errorf("%+v, %v", g, refused)
		}
		client.FlushAll(t.Context())
		l = limiter(redisstore.Open(t.Context(), client))
		if g, err := l.Allow(t.Context(), reservations.Charge{Limit: "slots"}); err != nil || g.Started() {
			t.Errorf("%+v, %v", g, err)
		}
		if v, err := l.View(t.Context(), "slots", ""); err != nil || v.Forgotten < 25*time.Second {
			t.Errorf("%+v, %v", v, err)
		}
	})
}
