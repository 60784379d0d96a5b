package embedded_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/products/embedded"
)

// inMemory returns a server without a listener, and a client. The client sends one command at a time on a connection,
// so net.Pipe needs no buffer.
func inMemory(tb testing.TB) (*embedded.Redis, *redis.Client) {
	tb.Helper()
	server := embedded.New()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", PoolSize: 100, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			server.Serve(there)
			return here, nil
		},
	})
	tb.Cleanup(func() {
		_ = client.Close()
		server.Close()
	})
	return server, client
}

func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// Keys expire by the clock of the bubble, a millisecond after their time as in Redis.
func TestKeysExpireInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := inMemory(t)
		ctx := t.Context()
		start := time.Now()
		set := func(key string, d time.Duration) {
			t.Helper()
			if err := client.Set(ctx, key, "v", d).Err(); err != nil {
				t.Fatal(err)
			}
		}
		want := func(keys ...string) {
			t.Helper()
			if got := client.DBSize(ctx).Val(); int(got) != len(keys) {
				t.Errorf("after %v: %d keys, want %q", time.Since(start), got, keys)
			}
			if n := client.Exists(ctx, append(keys, "none")...).Val(); int(n) != len(keys) {
				t.Errorf("after %v: %d of %q", time.Since(start), n, keys)
			}
		}
		set("long", time.Hour)
		set("short", time.Second)
		set("prolonged", time.Second)
		set("kept", time.Second)
		set("shortened", time.Hour)
		set("renamed", 2*time.Second)
		sleep(t, 500*time.Millisecond)
		client.PExpire(ctx, "prolonged", time.Minute)
		client.Persist(ctx, "kept")
		client.Expire(ctx, "shortened", time.Second)
		client.Rename(ctx, "renamed", "other")
		if ttl := client.PTTL(ctx, "long").Val(); ttl != time.Hour-500*time.Millisecond {
			t.Errorf("time to live %v", ttl)
		}
		want("long", "short", "prolonged", "kept", "shortened", "other")
		sleep(t, 500*time.Millisecond)
		want("long", "short", "prolonged", "kept", "shortened", "other")
		sleep(t, time.Millisecond)
		want("long", "prolonged", "kept", "shortened", "other")
		sleep(t, time.Second)
		want("long", "prolonged", "kept")
		sleep(t, 59*time.Second)
		want("long", "kept")
		sleep(t, 1000*time.Hour)
		want("kept")
		if err := client.Do(ctx, "EXPIREAT", "kept", time.Now().Add(time.Second).Unix()).Err(); err != nil {
			t.Error(err)
		}
		sleep(t, 1001*time.Millisecond)
		want()
	})
}

// A subscription stays open while time passes and scripts publish.
func TestScriptsPublishInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := inMemory(t)
		ctx := t.Context()
		subscription := client.Subscribe(ctx, "c")
		defer func() { _ = subscription.Close() }()
		if _, err := subscription.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		messages := subscription.Channel()
		for i := range 3 {
			sleep(t, time.Minute)
			n, err := client.Eval(ctx, `return redis.call("PUBLISH", "c", ARGV[1])`, nil, i).Int()
			if n != 1 || err != nil {
				t.Fatalf("%d subscribers, %v", n, err)
			}
			if m := <-messages; m.Payload != strconv.Itoa(i) {
				t.Errorf("message %q", m.Payload)
			}
		}
	})
}

// A script and a transaction are atomic for all connections.
func TestScriptsAreAtomic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := inMemory(t)
		const each, times = 8, 50
		script := redis.NewScript(`-- add
			local n = tonumber(redis.call("GET", KEYS[1]) or 0)
			redis.call("SET", KEYS[1], n + 1)
			redis.call("HSET", "h", ARGV[1], n)
			return n + 1`)
		var all sync.WaitGroup
		for g := range each {
			all.Go(func() {
				for i := range times {
					if err := script.Run(t.Context(), client, []string{"n"}, strconv.Itoa(g)).Err(); err != nil {
						t.Error(err)
					}
					client.Incr(t.Context(), "n")
					client.Set(t.Context(), "k"+strconv.Itoa(i), "v", time.Duration(i)*time.Millisecond+1e6)
					sleep(t, time.Millisecond)
				}
			})
		}
		all.Wait()
		if n, err := client.Get(t.Context(), "n").Int(); n != 2*each*times || err != nil {
			t.Errorf("%d, %v, want %d", n, err, 2*each*times)
		}
		by := server.CommandsByName()
		if n := by["EVALSHA add"]; n < each*times-each || by["INCR"] != each*times || by["GET"] != 1 || by["HSET"] != 0 {
			t.Errorf("counted %v", by)
		}
	})
}

// The server ends in a bubble with a connection that is open and a command that waits.
func TestCloseEndsBlockedCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := inMemory(t)
		start := time.Now()
		err := client.BLPop(t.Context(), 10*time.Second, "none").Err()
		if err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ended := make(chan error)
		go func() { ended <- client.BLPop(t.Context(), 0, "none").Err() }()
		synctest.Wait()
		server.Close()
		if err := <-ended; err == nil {
			t.Error("an answer without a server")
		}
	})
}

// A waiting command takes an element after the script that pushed it, not within.
func TestScriptsPushToBlockedCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := inMemory(t)
		got := make(chan []string)
		go func() { got <- client.BLPop(t.Context(), 0, "l").Val() }()
		synctest.Wait()
		n, err := client.Eval(t.Context(), `redis.call("RPUSH", "l", "x") return redis.call("LLEN", "l")`, nil).Int()
		if n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if taken := <-got; len(taken) != 2 || taken[1] != "x" {
			t.Errorf("took %q", taken)
		}
	})
}

func TestRefusesWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	_, client := inMemory(t)
	for _, c := range []command{
		{"WATCH", "k"}, {"SWAPDB", 0, 1}, {"HEXPIRE", "h", 1, "FIELDS", 1, "f"}, {"COPY", "a", "b", "DB", 1},
	} {
		if err := client.Do(t.Context(), c...).Err(); err == nil {
			t.Errorf("%q: no error", c)
		}
	}
}

// Databases have keys and times of their own.
func TestDatabases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := inMemory(t)
		conn := client.Conn()
		defer func() { _ = conn.Close() }()
		ctx := t.Context()
		conn.Set(ctx, "k", "zero", 0)
		conn.Select(ctx, 3)
		err := conn.Eval(ctx, `return redis.call("SET", "k", "three", "PX", 5, "NX")`, nil).Err()
		if err != nil {
			t.Errorf("the key of database 0: %v", err)
		}
		if got := client.Get(ctx, "k").Val(); got != "zero" {
			t.Errorf("got %q", got)
		}
		sleep(t, 6*time.Millisecond)
		if conn.Exists(ctx, "k").Val() != 0 || client.Exists(ctx, "k").Val() != 1 {
			t.Error("another key expired")
		}
	})
}
