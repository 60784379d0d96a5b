package embedded

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"sync"

	"github.com/redis/go-redis/v9"
)

// listener accepts connections for a server on a free port of loopback.
type listener struct {
	net.Listener

	password  string
	accepting sync.WaitGroup
}

// Start starts a server on a free port of loopback. Only clients with its password may use it. The caller closes it.
func Start() (*Redis, error) {
	listening, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listens at once
	if err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	r := New()
	r.listener = &listener{Listener: listening, password: rand.Text()}
	r.server.RequireAuth(r.listener.password)
	r.listener.accepting.Go(func() {
		for {
			conn, err := listening.Accept()
			if err != nil {
				return
			}
			r.Serve(conn)
		}
	})
	return r, nil
}

func (l *listener) close() {
	_ = l.Close()
	l.accepting.Wait()
}

// URL returns the address with the password, as REDIS_URL has it. The server must have a listener.
func (r *Redis) URL() string {
	u := url.URL{
		Scheme: "redis", User: url.UserPassword("", r.listener.password), Host: r.listener.Addr().String(), Path: "/0",
	}
	return u.String()
}

// Connect returns a client. The caller closes it. The server must have a listener.
func (r *Redis) Connect() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.listener.Addr().String(), Password: r.listener.password})
}
