// Package embedded runs a Redis inside the process, for `headway demo` and `headway dev`. It keeps all data in memory.
package embedded

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// expireEvery is how often keys expire. miniredis has no clock of its own for them.
const expireEvery = 100 * time.Millisecond

// Redis is a Redis server on a free port of loopback. Only clients with its password may use it.
type Redis struct {
	server   *miniredis.Miniredis
	password string
	stop     chan struct{}
	expiring sync.WaitGroup
}

// Start starts a server. The caller closes it.
func Start() (*Redis, error) {
	r := &Redis{server: miniredis.NewMiniRedis(), password: rand.Text(), stop: make(chan struct{})}
	r.server.RequireAuth(r.password)
	if err := r.server.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	r.server.Server().SetPreHook(info(rand.Text()))
	r.expiring.Go(r.expire)
	return r, nil
}

// info answers INFO with the fields that redisstore reads, which miniredis lacks. Run is the ID of this run of the
// server.
func info(run string) server.Hook {
	text := "run_id:" + strings.ToLower(run) + "\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	return func(c *server.Peer, command string, args ...string) bool {
		if !strings.EqualFold(command, "INFO") || len(args) != 1 ||
			!strings.EqualFold(args[0], "server") && !strings.EqualFold(args[0], "memory") {
			return false
		}
		c.WriteBulk(text)
		return true
	}
}

// expire lets the time of keys pass until Close.
func (r *Redis) expire() {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-r.stop:
			return
		case now := <-tick.C:
			r.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

// URL returns the address with the password, as REDIS_URL has it.
func (r *Redis) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", r.password), Host: r.server.Addr(), Path: "/0"}
	return u.String()
}

// Connect returns a client. The caller closes it.
func (r *Redis) Connect() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.server.Addr(), Password: r.password})
}

// Close stops the server. Its data is gone.
func (r *Redis) Close() {
	close(r.stop)
	r.expiring.Wait()
	r.server.Close()
}
