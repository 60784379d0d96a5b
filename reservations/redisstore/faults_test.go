package redisstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

func wantUnavailable(t *testing.T, err error, applied ...bucket.Applied) {
	t.Helper()
	var u *bucket.UnavailableError
	if !errors.Is(err, reservations.ErrUnavailable) || !errors.As(err, &u) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	if !slices.Contains(applied, u.Applied) {
		t.Errorf("applied %q, want %q: %v", u.Applied, applied, err)
	}
}

// filled makes a server one that has lost nothing for long.
func filled(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := redisstore.NeverLost(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

// wantEmpty expects the server to have forgotten at an unknown moment what was taken.
func wantEmpty(t *testing.T, store reservations.Store, what string) {
	t.Helper()
	if o := apply(t, store, daily(), allow(1)); o.State != bucket.StateRefused {
		t.Errorf("%s: a task of one token a day %s", what, o.State)
	}
	slow := thousand(what + " slow")
	slow.Meters[0].Rate = 1
	if o := apply(t, store, slow, allow(90)); o.Started() {
		t.Errorf("%s: a full burst started", what)
	}
	for range 20 { // it is full after 0.1 s and the longest hold
		o := apply(t, store, thousand(what), start(90))
		if o.Started() {
			return
		}
		_ = pause.For(t.Context(), o.Wait())
	}
	t.Errorf("%s: nothing starts at 1000 a second", what)
}

func thousand(name string) reservations.Limit {
	return reservations.Limit{Name: strings.ReplaceAll(name, " ", "-"), Meters: []reservations.Meter{
		{Name: "m", Rate: 1000, Period: time.Second, Capacity: 100},
	}}
}

// A restart without persistence loses buckets, and a flush too. What started before does not start again.
func TestForgottenBuckets(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t, "--appendonly", "no")
	client := connect(t, server.URL())
	store := open(t, server.URL())
	for what, lose := range map[string]func(){
		"restart": func() { server.Restart(t) },
		"flush": func() {
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		filled(t, client)
		if err := store.Reset(t.Context(), "daily", ""); err != nil {
			t.Fatal(err)
		}
		if o := apply(t, store, daily(), allow(100)); !o.Started() {
			t.Fatalf("%s: %s", what, o.State)
		}
		lose()
		again := open(t, server.URL())
		wantEmpty(t, again, what)
		if err := again.Reset(t.Context(), "daily", ""); err != nil { // says that the provider has forgotten as well
			t.Fatal(err)
		}
		if o := apply(t, again, daily(), allow(100)); !o.Started() {
			t.Errorf("%s: after a reset %s", what, o.State)
		}
	}
}

// A restart with persistence keeps a debt, and a new epoch begins, as the last second may be lost.
func TestRestartWithPersistence(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t, "--appendfsync", "always")
	store := open(t, server.URL())
	filled(t, connect(t, server.URL()))
	apply(t, store, daily(), start(100), bucket.Request{Op: bucket.OpReserve, Tokens: []float64{50}})
	server.Restart(t)
	b, _, err := bucket.Read(t.Context(), open(t, server.URL()), "daily", "")
	if err != nil || b.Version != 2 || b.Meters[0].Reserved > -50 || b.Since.IsZero() {
		t.Errorf("after a restart: %+v, %v", b, err)
	}
}

// A replica that lags is promoted: what it does not know does not start again.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := testenv.StartRedisServer(t)
	replica := testenv.StartRedisServer(t)
	ctx, other := t.Context(), connect(t, replica.URL())
	store, client := open(t, primary.URL()), connect(t, primary.URL())
	filled(t, client)
	if o := apply(t, store, daily(), start(10)); !o.Started() {
		t.Fatal(o.State)
	}
	host, port, _ := net.SplitHostPort(primary.Addr())
	if err := other.ReplicaOf(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	for client.Wait(ctx, 1, 100*time.Millisecond).Val() < 1 ||
		other.Exists(ctx, "headway:{buckets}:bucket:daily").Val() < 1 {
		if ctx.Err() != nil {
			t.Fatal("the replica does not follow")
		}
	}
	_, err := redisstore.Open(ctx, other)
	if err == nil { // the epoch is that of the primary: only a promoted server begins one
		t.Error("opened a replica")
	}
	if err = other.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil { // from here on it lags
		t.Fatal(err)
	}
	if o := apply(t, store, daily(), allow(90)); !o.Started() {
		t.Fatal(o.State)
	}
	primary.Kill()
	wantEmpty(t, open(t, replica.URL()), "failover")
	_, err = bucket.Apply(ctx, store, bucket.Rules(daily()), "", []bucket.Request{start(1)})
	wantUnavailable(t, err, bucket.AppliedNo)
}

// A server at its maxmemory refuses writes. Nothing limited starts, and the error says why.
func TestMaxmemoryReached(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t, "--maxmemory-policy", "noeviction")
	client, store := connect(t, server.URL()), open(t, server.URL())
	filled(t, client)
	apply(t, store, limit, start(1))
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", []bucket.Request{start(1)})
	wantUnavailable(t, err, bucket.AppliedNo)
	if !strings.Contains(err.Error(), "maxmemory") || errors.Is(err, bucket.ErrBucket) {
		t.Errorf("got %v", err)
	}
	set := reservations.Override{Limit: "api", Meter: "m", Rate: 1, Period: time.Second}
	if err = store.SetOverride(t.Context(), set); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("set an override: %v", err)
	}
	if err = client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if o := apply(t, store, limit, start(1)); !o.Started() || o.Bucket.Version != 2 {
		t.Errorf("after that: %+v", o)
	}
}

func TestServerThatEvicts(t *testing.T) {
	t.Parallel()
	for policy, most := range map[string]string{"allkeys-lru": "100mb", "volatile-ttl": "100mb", "volatile-lru": "0"} {
		server := testenv.StartRedisServer(t, "--maxmemory", most, "--maxmemory-policy", policy)
		_, err := redisstore.Open(t.Context(), connect(t, server.URL()))
		if !errors.Is(err, redisstore.ErrEvicts) || !strings.Contains(err.Error(), policy) {
			t.Errorf("%s: got %v", policy, err)
		}
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t)
	proxy := testenv.NewProxy(t, server.Addr())
	filled(t, connect(t, server.URL()))
	store := open(t, "redis://"+proxy.Addr()+"/0")
	apply(t, store, limit, start(1))
	proxy.Cut()
	_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", []bucket.Request{start(1)})
	wantUnavailable(t, err, bucket.AppliedNo)
	wantUnavailable(t, store.Reset(t.Context(), "api", ""), bucket.AppliedNo, bucket.AppliedMaybe)
	_, _, err = bucket.Read(t.Context(), store, "api", "")
	wantUnavailable(t, err, bucket.AppliedNo)
	if _, err = redisstore.Open(t.Context(), connect(t, "redis://"+proxy.Addr()+"/0")); !errors.Is(err,
		reservations.ErrUnavailable) {
		t.Errorf("open: %v", err)
	}
	proxy.Restore()
	if o := apply(t, store, limit, start(1)); o.Bucket.Version != 2 {
		t.Errorf("version %d, want 2", o.Bucket.Version)
	}
}

// hook runs before each command that a client sends.
type hook struct{ before func(redis.Cmder) }

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.before(cmd)
		return next(ctx, cmd)
	}
}

// isSwap says whether a command swaps: it has the arguments of a swap.
func isSwap(cmd redis.Cmder) bool { return len(cmd.Args()) == 14 }

// A swap whose answer is lost may have been applied. The client does not repeat it.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := connect(t, "redis://"+proxy.Addr()+"/0")
	filled(t, connect(t, server.URL()))
	store, err := redisstore.Open(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, store, limit, start(1))
	var paused atomic.Bool
	client.AddHook(hook{func(cmd redis.Cmder) {
		if isSwap(cmd) && paused.CompareAndSwap(false, true) {
			proxy.Pause()
		}
	}})
	for patience := 300 * time.Millisecond; !paused.Load(); patience *= 2 { // a stall may end a call before it sends
		if patience > time.Minute {
			t.Fatal("no swap was sent")
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = bucket.Apply(ctx, store, bucket.Rules(limit), "", []bucket.Request{start(1)})
		cancel()
	}
	wantUnavailable(t, err, bucket.AppliedMaybe)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the cause is lost: %v", err)
	}
	proxy.Resume()
	if o := apply(t, store, limit, start(1)); o.Bucket.Version < 2 || o.Bucket.Version > 3 {
		t.Errorf("version %d: the swap was repeated", o.Bucket.Version)
	}
}

// What is no bucket is a fault of that bucket alone.
func TestMalformedBucket(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	client, store := connect(t, url), open(t, url)
	key := func(name string) string { return "headway:{buckets}:bucket:" + name }
	for name, set := range map[string]func() error{
		"list":     func() error { return client.RPush(t.Context(), key("list"), "x").Err() },
		"short":    func() error { return client.Set(t.Context(), key("short"), "x", 0).Err() },
		"nonsense": func() error { return client.Set(t.Context(), key("nonsense"), strings.Repeat("x", 99), 0).Err() },
	} {
		if err := set(); err != nil {
			t.Fatal(err)
		}
		l := limit
		l.Name = name
		_, err := bucket.Apply(t.Context(), store, bucket.Rules(l), "", []bucket.Request{start(1)})
		wantUnavailable(t, err, bucket.AppliedNo)
		if !errors.Is(err, bucket.ErrBucket) {
			t.Errorf("%s: %v is no fault of a bucket", name, err)
		}
		if err = store.Reset(t.Context(), name, ""); err != nil {
			t.Errorf("%s: reset: %v", name, err)
		}
		apply(t, store, l, start(1))
	}
}

// Neither a queue that something else has made nor an epoch that is none stops a bucket, and a reset mends both.
func TestMalformedQueuesAndEpochs(t *testing.T) {
	t.Parallel()
	const root = "headway:{buckets}:"
	for name, spoil := range map[string]func(client *redis.Client) error{
		"the queue is a hash": func(c *redis.Client) error { return c.HSet(t.Context(), root+"queue:api", "a", "b").Err() },
		"the queue has another call": func(c *redis.Client) error {
			return c.RPush(t.Context(), root+"queue:api", "another", "and another").Err()
		},
		"the epoch is a text": func(c *redis.Client) error { return c.Set(t.Context(), root+"epoch", "x", 0).Err() },
		"the epoch is a hash": func(c *redis.Client) error {
			return errors.Join(c.Del(t.Context(), root+"epoch").Err(), c.HSet(t.Context(), root+"epoch", "a", "b").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testenv.Redis(t)
			client, store := connect(t, url), open(t, url)
			if err := spoil(client); err != nil {
				t.Fatal(err)
			}
			apply(t, store, limit, start(1))
			if err := errors.Join(spoil(client), store.Reset(t.Context(), "api", "")); err != nil {
				t.Fatal(err)
			}
			apply(t, store, limit, start(1))
		})
	}
}

// A call that always loses gives up and says so.
func TestContended(t *testing.T) {
	t.Parallel()
	client, store, rival := rivals(t)
	client.AddHook(hook{func(cmd redis.Cmder) {
		if isSwap(cmd) {
			if fault := rival.Reset(context.WithoutCancel(t.Context()), "api", ""); fault != nil {
				t.Error(fault)
			}
		}
	}})
	store.WithPatience(50 * time.Millisecond)
	_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", []bucket.Request{start(1)})
	wantUnavailable(t, err, bucket.AppliedNo)
	if !errors.Is(err, bucket.ErrContended) || !errors.Is(err, bucket.ErrBucket) {
		t.Errorf("got %v", err)
	}
	if o := apply(t, rival, limit, start(5)); !o.Started() {
		t.Errorf("another call: %s", o.State)
	}
}

// An epoch that lies ahead, as after Redis has started with a wrong clock, keeps no bucket back until then.
func TestEpochsAhead(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	client, store := connect(t, url), open(t, url)
	apply(t, store, limit, start(1))
	if err := client.SetRange(t.Context(), redisstore.KeyEpoch, 0, "4102444800000000").Err(); err != nil { // 2100
		t.Fatal(err)
	}
	outcomes, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", []bucket.Request{start(1)})
	if err != nil || outcomes[0].Wait() > time.Hour {
		t.Errorf("%+v, %v", outcomes, err)
	}
}
