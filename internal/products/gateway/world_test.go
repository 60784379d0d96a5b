package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// world is a fleet of gateways before a provider, in virtual time.
type world struct {
	t        *testing.T
	redis    *embedded.Redis
	store    *store
	limits   []reservations.Limit
	provider *host
	gates    []*gate
	delay    time.Duration // of a message, at most
}

// gate is one gateway: a process with a network of its own.
type gate struct {
	*host

	gateway *gateway.Gateway

	world   *world
	limiter *reservations.Limiter
	line    *scheduler.Scheduler
	redis   *network.Wire
	client  *redis.Client
	calls   *http.Transport // to the provider
	close   func()
}

// play runs a test in virtual time, with one gateway. Handle is the provider.
func play(
	t *testing.T, handle http.HandlerFunc, change func(*gateway.Config), test func(*world, *gate),
	limits ...reservations.Limit,
) {
	t.Helper()
	playWith(t, time.Millisecond, handle, change, test, limits...)
}

// playWith is play on a network of its own delay.
func playWith(
	t *testing.T, delay time.Duration, handle http.HandlerFunc, change func(*gateway.Config),
	test func(*world, *gate), limits ...reservations.Limit,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		logging.Disable()
		if len(limits) == 0 {
			limits = []reservations.Limit{slow()}
		}
		w := &world{
			t: t, redis: embedded.New(), store: &store{Store: memstore.New()}, limits: limits,
			provider: newHost(&http.Server{
				Handler: handle, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
			}, delay), delay: delay,
		}
		g := w.newGate(change)
		test(w, g)
		for _, g := range w.gates {
			g.close()
		}
		w.provider.close()
		w.redis.Close()
	})
}

// slow is a limit of one request in 20 seconds, and no more at once.
func slow() reservations.Limit {
	return reservations.Limit{Name: "pool", Meters: []reservations.Meter{
		{Name: "requests", Rate: 3, Period: time.Minute, Capacity: 1},
	}}
}

// newGate starts another gateway.
func (w *world) newGate(change func(*gateway.Config)) *gate {
	w.t.Helper()
	g := &gate{world: w, redis: network.New(network.NewConditions(1, 1, 0, w.delay), w.redis.Serve)}
	g.client = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: g.redis.Dial, PoolSize: 5000, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	var err error
	if g.limiter, err = reservations.New(w.store, w.limits, reservations.Config{}); err != nil {
		w.t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	if g.line, err = scheduler.New(g.client, g.limiter, scheduler.Config{Logger: quiet}); err != nil {
		w.t.Fatal(err)
	}
	if err = g.line.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	g.calls = w.provider.transport()
	config := gateway.Config{
		Limiter: g.limiter, Waitlist: inside.Of(g.line), Transport: g.calls, Logger: quiet,
		Providers: []gateway.Provider{{BaseURL: "http://127.0.0.1:1/v1", APIKey: providerKey}},
	}
	if change != nil {
		change(&config)
	}
	if g.gateway, err = gateway.New(config); err != nil {
		w.t.Fatal(err)
	}
	g.host = newHost(g.gateway.Server(), w.delay)
	g.close = sync.OnceFunc(func() {
		g.gateway.Stop()
		g.host.close()
		if err := g.gateway.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
		if err := g.line.Stop(context.Background()); err != nil {
			w.t.Error(err)
		}
		g.calls.CloseIdleConnections()
		_ = g.client.Close()
	})
	w.gates = append(w.gates, g)
	return g
}

// host is an HTTP server without a socket.
type host struct {
	server *http.Server
	wire   *network.Wire
	conns  chan net.Conn
	ended  chan struct{}
	used   []*http.Transport
}

// newHost starts a server. Each message takes at most delay.
func newHost(server *http.Server, delay time.Duration) *host {
	h := &host{server: server, conns: make(chan net.Conn), ended: make(chan struct{})}
	h.wire = network.New(network.NewConditions(2, 2, 0, delay), func(c net.Conn) {
		go func() {
			select {
			case h.conns <- c:
			case <-h.ended:
				_ = c.Close()
			}
		}()
	})
	go func() { _ = h.server.Serve(h) }()
	return h
}

// Accept implements net.Listener.
func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *host) Close() error { return nil }

// Addr implements net.Listener.
func (h *host) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (h *host) transport() *http.Transport {
	t := &http.Transport{DialContext: h.wire.Dial, DisableCompression: true}
	h.used = append(h.used, t)
	return t
}

func (h *host) close() {
	for _, t := range h.used {
		t.CloseIdleConnections()
	}
	close(h.ended)
	_ = h.server.Close()
}

// reply is the answer to a call, and when it came.
type reply struct {
	*http.Response

	text  string
	took  time.Duration // until the end of the body
	first time.Duration // until the headers
	err   error
}

// send sends a call in the background.
func (g *gate) send(ctx context.Context, path, body string, header ...string) <-chan reply {
	g.world.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		g.world.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	transport := g.transport()
	got := make(chan reply, 1)
	began := time.Now()
	go func() {
		defer transport.CloseIdleConnections()
		var a reply
		if a.Response, a.err = transport.RoundTrip(r); a.err == nil { //nolint:bodyclose // it is
			a.first = time.Since(began) //gate:ok called in bubbles
			var text []byte
			text, a.err = io.ReadAll(bufio.NewReader(a.Body))
			_ = a.Body.Close()
			a.text = string(text)
		}
		a.took = time.Since(began) //gate:ok called in bubbles
		got <- a
	}()
	return got
}

// chat sends a chat, and waits for the answer.
func (g *gate) chat(body string, header ...string) reply {
	g.world.t.Helper()
	return <-g.send(context.Background(), "/v1/chat/completions", body, header...)
}

// empty checks that nothing waits, and that nothing is charged for calls that were not made.
func (w *world) empty() {
	w.t.Helper()
	wait(time.Second)
	for _, l := range w.limits {
		v, err := w.gates[0].limiter.View(w.t.Context(), l.Name, "")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, m := range v.Meters {
			if m.Promised > 0.001 {
				w.t.Errorf("limit %s: %+v is promised, and nothing waits", l.Name, m)
			}
		}
	}
	keys, err := w.gates[0].client.Keys(w.t.Context(), "headway:{wait}:*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, key := range keys {
		for _, kind := range []string{"list:", "promoted:", "task:", "queues:"} {
			if strings.HasPrefix(key, "headway:{wait}:"+kind) {
				w.t.Errorf("%q is left in the waitlists", key)
			}
		}
	}
}

// store is a store that may be away.
type store struct {
	*memstore.Store

	away atomic.Bool
	pace atomic.Int64 // how long each call takes
}

var errAway = errors.New("away")

func (s *store) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *store) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	<-time.After(time.Duration(s.pace.Load())) //gate:ok called in bubbles
	if s.away.Load() {
		return nil, &bucket.UnavailableError{Bucket: key, Applied: bucket.AppliedNo, Err: errAway}
	}
	return bucket.Apply(ctx, s.Store, limit, key, requests)
}
