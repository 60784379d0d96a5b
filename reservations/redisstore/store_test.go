package redisstore_test

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/reservations/storetest"
)

// patience is for a machine that stalls: as long clients and stores of tests wait and compete.
const patience = time.Minute

func connect(tb testing.TB, url string) *redis.Client {
	tb.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = patience, patience, patience
	options.PoolTimeout = patience
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
	return store.WithPatience(patience)
}

// rivals are two stores of one server that loses nothing, as two processes have them, and the client of the first.
func rivals(t *testing.T) (client *redis.Client, store, rival *redisstore.Store) {
	t.Helper()
	url := testenv.Redis(t)
	client, rival = connect(t, url), open(t, url)
	filled(t, client)
	store, err := redisstore.Open(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return client, store.WithPatience(patience), rival
}

// Pools of connections, as options of a URL. A call holds a connection while it waits for other calls of its bucket.
const (
	forEachCall = "?pool_size=80" // more than storetest makes at a time
	few         = "?pool_size=10"
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

// A Limiter has one call of a bucket at a time, which may wait for other processes with a connection of its own. With
// fewer connections than buckets, all calls are answered.
func TestMoreBucketsThanConnections(t *testing.T) {
	t.Parallel()
	const processes, buckets, calls = 3, 60, 5
	url := testenv.Redis(t) + few
	open(t, url)
	if err := redisstore.NeverLost(t.Context(), connect(t, url)); err != nil {
		t.Fatal(err)
	}
	var answered [buckets]atomic.Int64
	var all sync.WaitGroup
	for range processes {
		store := open(t, url)
		for key := range buckets {
			all.Go(func() {
				for range calls {
					_, err := bucket.Apply(t.Context(), store, bucket.Rules(daily()), strconv.Itoa(key), []bucket.Request{start(1)})
					if err != nil {
						t.Error(err)
						return
					}
					answered[key].Add(1)
				}
			})
		}
	}
	all.Wait()
	for key := range buckets {
		b, _, err := bucket.Read(t.Context(), open(t, url), "daily", strconv.Itoa(key))
		if err != nil || len(b.Meters) != 1 {
			t.Fatalf("bucket %d: %+v, %v", key, b.Meters, err)
		}
		started := int64(math.Round(100 - b.Meters[0].Started))
		if started != answered[key].Load() {
			t.Errorf("bucket %d: %d tokens started, %d calls answered", key, started, answered[key].Load())
		}
	}
}

var limit = reservations.Limit{Name: "api", Meters: []reservations.Meter{
	{Name: "m", Rate: 10, Period: time.Second, Capacity: 5},
}}

// daily is a limit of one token a day, and a hundred at once: nothing comes back while a test runs.
func daily() reservations.Limit {
	return reservations.Limit{Name: "daily", Meters: []reservations.Meter{
		{Name: "m", Rate: 1, Period: 24 * time.Hour, Capacity: 100},
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
	outcomes, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", requests)
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
	b, now, err := bucket.Read(t.Context(), store, "api", "")
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
	o := apply(t, store, limit, start(5), start(15)) // full in 2 s
	kept := client.PTTL(t.Context(), "headway:{buckets}:bucket:api").Val()
	passed := client.Time(t.Context()).Val().Sub(o.At)
	if kept > 62*time.Second || kept < 62*time.Second-passed-time.Millisecond {
		t.Errorf("the bucket is kept for %v after %v, want 62s", kept, passed)
	}
}
