package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/storetest"
	"github.com/headway-go/headway/reservations/redisstore"
)

func connect(tb testing.TB, url string) *redis.Client {
	tb.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// open is a store with a client of its own, as another process has it.
func open(tb testing.TB, url string) *redisstore.Store {
	tb.Helper()
	store, err := redisstore.Open(tb.Context(), connect(tb, url))
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

// Pools of connections, as options of a URL. Each call that waits for others holds a connection.
const (
	forEachCall = "?pool_size=80" // more than storetest makes at a time
	few         = "?pool_size=20"
)

// instance is a store in a database of its own that has never lost anything, by Redis's clock where now is nil. Each
// client has this pool.
func instance(tb testing.TB, pool string, now func() time.Time) storetest.Instance {
	tb.Helper()
	url := testenv.Redis(tb) + pool
	store := open(tb, url).WithClock(now)
	if err := redisstore.NeverLost(tb.Context(), connect(tb, url)); err != nil {
		tb.Fatal(err)
	}
	return storetest.Instance{
		Store: store,
		Peer: func(t *testing.T) reservations.Store {
			t.Helper()
			return open(t, url).WithClock(now)
		},
	}
}

func controlled(t *testing.T) storetest.Instance {
	t.Helper()
	clock := storetest.NewClock()
	i := instance(t, forEachCall, clock.Now)
	i.Advance = clock.Advance
	return i
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, controlled)
}

func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	storetest.Replay(t, "../testdata/convex_hand.jsonl", 516, controlled)
}

func TestConformanceLive(t *testing.T) {
	t.Parallel()
	storetest.RunLive(t, func(t *testing.T) storetest.Instance {
		t.Helper()
		return instance(t, forEachCall, nil)
	})
}

// A call that needs a connection waits up to 200 ms for one that a waiting call holds. No token is lost by that.
func TestMoreCallsThanConnections(t *testing.T) {
	t.Parallel()
	longtest.Only(t, 80*time.Second)
	storetest.RunLive(t, func(t *testing.T) storetest.Instance {
		t.Helper()
		return instance(t, few, nil)
	})
}

var limit = reservations.Limit{Name: "api", Meters: []reservations.Meter{
	{Name: "m", Rate: 10, Period: time.Second, Capacity: 5, MaxReserved: reservations.Unlimited},
}}

// daily is a limit of one token a day, and a hundred at once: nothing comes back while a test runs.
func daily() reservations.Limit {
	return reservations.Limit{Name: "daily", Meters: []reservations.Meter{
		{Name: "m", Rate: 1, Period: 24 * time.Hour, Capacity: 100, MaxReserved: reservations.Unlimited},
	}}
}

func start(n float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: []float64{n}}
}

func allow(n float64) bucket.Request {
	return bucket.Request{Op: bucket.OpAllow, Tokens: []float64{n}}
}

func apply(
	t *testing.T, store reservations.Store, limit reservations.Limit, requests ...bucket.Request,
) bucket.Answer {
	t.Helper()
	outcomes, err := store.Apply(t.Context(), limit.Rules(), "", requests)
	if err != nil || len(outcomes) != len(requests) {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	return outcomes[len(outcomes)-1]
}

func TestServersClock(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	store, client := open(t, url), connect(t, url)
	before := client.Time(t.Context()).Val()
	o := apply(t, store, limit, start(0), start(1))
	b, now, err := store.Load(t.Context(), "api", "")
	if err != nil || o.At.Before(before) || !b.At.Equal(o.At) || now.Before(b.At) || b.Version != 1 {
		t.Errorf("asked after %v: decided at %v, loaded %+v at %v, %v", before, o.At, b, now, err)
	}
}

// A bucket is forgotten a minute after it is full.
func TestExpiry(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	store, client := open(t, url), connect(t, url)
	if err := redisstore.NeverLost(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	apply(t, store, limit, start(5), start(15)) // full in 2 s
	if kept := client.PTTL(t.Context(), "headway:{buckets}:bucket:api").Val(); kept < 50*time.Second ||
		kept > 62*time.Second {
		t.Errorf("the bucket is kept for %v, want 62s", kept)
	}
}
