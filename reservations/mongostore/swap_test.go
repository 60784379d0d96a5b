package mongostore_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/storetest"
)

// daily is a limit of one token a day: nothing comes back while a test runs.
func daily(capacity float64) reservations.Limit {
	return reservations.Limit{Name: "daily", Meters: []reservations.Meter{
		{Name: "m", Rate: 1, Period: 24 * time.Hour, Capacity: capacity, MaxReserved: reservations.Unlimited},
	}}
}

// counted counts the updates that a client sends.
type counted struct{ swaps, pipelines atomic.Int64 }

func (c *counted) all() int64 { return c.swaps.Load() + c.pipelines.Load() }

// open returns a store of its own client, as another process has it.
func (c *counted) open(t *testing.T, uri, name string, o mongostore.Options) *mongostore.Store {
	t.Helper()
	settings, err := mongostore.ClientOptions(uri)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mongo.Connect(settings.SetMonitor(c.monitor(settings.Monitor)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return mongostore.New(client.Database(name), o)
}

func (c *counted) monitor(ours *event.CommandMonitor) *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		ours.Started(ctx, e)
		update := e.Command.Lookup("update")
		if _, ok := update.ArrayOK(); ok {
			c.pipelines.Add(1)
		}
		if _, ok := update.DocumentOK(); ok {
			c.swaps.Add(1)
		}
	}}
}

func apply(t *testing.T, store reservations.Store, limit reservations.Limit, requests ...reservations.Request) reservations.Outcome {
	t.Helper()
	outcomes, err := store.Apply(t.Context(), limit, "", requests)
	if err != nil || len(outcomes) != len(requests) {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	return outcomes[len(outcomes)-1]
}

func TestSwapsAreOneCommand(t *testing.T) {
	t.Parallel()
	const calls = 500
	uri, name := testenv.Mongo(t)
	var sent counted
	store := sent.open(t, uri, name, mongostore.Options{})
	for i := range int64(calls) {
		if o := apply(t, store, limit, request(1)...); o.Version != i+1 {
			t.Fatalf("call %d: version %d", i, o.Version)
		}
	}
	if sent.all() != calls || sent.swaps.Load() < calls*9/10 {
		t.Errorf("%d swaps and %d pipelines for %d calls of a lone process", sent.swaps.Load(), sent.pipelines.Load(), calls)
	}
}

// Processes that share a bucket send hardly more than one command a call, however their calls follow each other.
func TestSharedBucketsCostNoMore(t *testing.T) {
	t.Parallel()
	const calls = 1000
	for what, next := range map[string]func(call int) int{
		"in turn":          func(call int) int { return call % 2 },
		"two each in turn": func(call int) int { return call / 2 % 2 },
		"four each":        func(call int) int { return call / 4 % 2 },
		"twenty each":      func(call int) int { return call / 20 % 2 },
		"at random":        func(int) int { return rand.IntN(2) },
		"one seldom":       func(call int) int { return max(0, call%7-5) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			uri, name := testenv.Mongo(t)
			var sent counted
			stores := []*mongostore.Store{sent.open(t, uri, name, mongostore.Options{}), sent.open(t, uri, name, mongostore.Options{})}
			for call := range calls {
				if o := apply(t, stores[next(call)], limit, request(1)...); o.Version != int64(call+1) {
					t.Fatalf("call %d: version %d", call, o.Version)
				}
			}
			t.Logf("%d swaps, %d pipelines", sent.swaps.Load(), sent.pipelines.Load())
			if sent.all() > calls*11/10 {
				t.Errorf("%d swaps and %d pipelines for %d calls of two processes", sent.swaps.Load(), sent.pipelines.Load(), calls)
			}
		})
	}
}

// After a write of another process, and after the bucket was deleted or made anew in the same millisecond, the pipeline decides.
func TestForeignWrites(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		foreign func(t *testing.T, other *mongostore.Store)
		version int64
		started bool
	}{
		"a call":  {func(t *testing.T, other *mongostore.Store) { t.Helper(); apply(t, other, daily(5), request(4)...) }, 4, false},
		"a reset": {func(t *testing.T, other *mongostore.Store) { t.Helper(); reset(t, other) }, 1, true},
		"a new bucket with the same version": {func(t *testing.T, other *mongostore.Store) {
			t.Helper()
			reset(t, other)
			apply(t, other, daily(5), append(request(2), request(3)...)...)
		}, 3, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			uri, name := testenv.Mongo(t)
			clock := storetest.NewClock()
			var sent counted
			store := sent.open(t, uri, name, mongostore.Options{Now: clock.Now}.With(mongostore.SwapAlways))
			other := mongostore.New(connect(t, uri).Database(name), mongostore.Options{Now: clock.Now}.With(mongostore.SwapNever))
			apply(t, store, daily(5), request(1)...)
			apply(t, store, daily(5), request(0)...)
			if sent.swaps.Load() != 1 {
				t.Fatalf("%d swaps, want one", sent.swaps.Load())
			}
			c.foreign(t, other)
			if o := apply(t, store, daily(5), request(1)...); o.Version != c.version || o.Started() != c.started {
				t.Errorf("got %+v, want version %d, started %v", o, c.version, c.started)
			}
			if sent.swaps.Load() != 2 || sent.pipelines.Load() != 2 {
				t.Errorf("%d swaps, %d pipelines", sent.swaps.Load(), sent.pipelines.Load())
			}
		})
	}
}

func reset(t *testing.T, store *mongostore.Store) {
	t.Helper()
	if err := store.Reset(t.Context(), daily(5), ""); err != nil {
		t.Fatal(err)
	}
}

// Stores of all modes, each used by several callers at once, start exactly what is there, and no version is given twice. On a clock at
// rest those that always swap do so at each call, and mostly in vain.
func TestModesShareABucket(t *testing.T) {
	t.Parallel()
	for what, now := range map[string]func() time.Time{"live": nil, "clock at rest": storetest.NewClock().Now} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			uri, name := testenv.Mongo(t)
			var sent counted
			var stores []reservations.Store
			for _, mode := range modes() {
				for range 2 {
					stores = append(stores, sent.open(t, uri, name, mongostore.Options{Now: now}.With(mode)))
				}
			}
			shareBucket(t, stores)
			t.Logf("%d swaps, %d pipelines", sent.swaps.Load(), sent.pipelines.Load())
		})
	}
}

func shareBucket(t *testing.T, stores []reservations.Store) {
	t.Helper()
	const capacity, callers, times = 300, 4, 40
	var mu sync.Mutex // guards versions, started
	var versions []int64
	started := 0
	var running sync.WaitGroup
	for _, store := range stores {
		for range callers {
			running.Go(func() {
				for range times {
					outcomes, err := store.Apply(t.Context(), daily(capacity), "", request(1))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					versions = append(versions, outcomes[0].Version)
					if outcomes[0].Started() {
						started++
					}
					mu.Unlock()
				}
			})
		}
	}
	running.Wait()
	slices.Sort(versions)
	for i, v := range versions {
		if v != int64(i+1) {
			t.Fatalf("version %d follows %d answers", v, i)
		}
	}
	if started != capacity || len(versions) != len(stores)*callers*times {
		t.Errorf("%d of %d started, want exactly %d", started, len(versions), capacity)
	}
}

// Where the answer to a swap is lost, nothing is known any more: the pipeline decides next.
func TestLostSwap(t *testing.T) {
	t.Parallel()
	proxy, uri, name := proxied(t)
	var sent counted
	store := sent.open(t, uri, name, mongostore.Options{})
	for sent.swaps.Load() == 0 {
		apply(t, store, limit, request(1)...)
	}
	proxy.Pause()
	pipelines := sent.pipelines.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := store.Apply(ctx, limit, "", request(1))
	wantUnavailable(t, err, reservations.AppliedMaybe)
	if sent.pipelines.Load() != pipelines || store.Remembered() != 0 {
		t.Errorf("%d pipelines after %d, %d buckets remembered", sent.pipelines.Load(), pipelines, store.Remembered())
	}
	proxy.Resume()
	swaps := sent.swaps.Load()
	apply(t, store, limit, request(1)...)
	if sent.swaps.Load() != swaps || sent.pipelines.Load() == pipelines {
		t.Error("swapped what is not known")
	}
}

// mixed is a store that decides each call in another process, chosen at random.
type mixed struct {
	reservations.Store

	all []reservations.Store
}

func (m mixed) Apply(ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	return m.all[rand.IntN(len(m.all))].Apply(ctx, limit, key, requests) //nolint:wrapcheck // the very errors of the store
}

func TestConformanceMixed(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Instance {
		t.Helper()
		clock := storetest.NewClock()
		uri, name := testenv.Mongo(t)
		db := connect(t, uri).Database(name)
		m := mixed{}
		for _, mode := range []mongostore.Swapping{mongostore.SwapAlways, mongostore.SwapNever, mongostore.SwapAdaptive} {
			m.all = append(m.all, mongostore.New(db, mongostore.Options{Now: clock.Now}.With(mode)))
		}
		m.Store = m.all[0]
		return storetest.Instance{Store: m, Advance: clock.Advance}
	})
}

// What a swap writes is what a pipeline writes, and fields of a later version survive it.
func TestSwappedDocument(t *testing.T) {
	t.Parallel()
	db := database(t)
	clock := storetest.NewClock()
	documents := map[mongostore.Swapping]bson.M{}
	for _, mode := range modes() {
		name := []string{"adaptive", "always", "never"}[mode]
		store := mongostore.New(db, mongostore.Options{Collection: name, Now: clock.Now}.With(mode))
		buckets := db.Collection(name)
		if _, err := buckets.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "api"}, {Key: "later", Value: 7}}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			apply(t, store, limit, append(request(5), request(2.25)...)...)
		}
		var got bson.M
		if err := buckets.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
			t.Fatal(err)
		}
		answers, _ := got["out"].(bson.A)
		if got["later"] != int32(7) || (len(answers) == 0) != (mode != mongostore.SwapNever) {
			t.Errorf("%s: %+v", name, got)
		}
		delete(got, "out")
		documents[mode] = got
	}
	want := documents[mongostore.SwapNever]
	for _, mode := range modes() {
		for field := range want {
			a, _ := bson.MarshalExtJSON(bson.M{"x": documents[mode][field]}, false, false)
			b, _ := bson.MarshalExtJSON(bson.M{"x": want[field]}, false, false)
			if string(a) != string(b) {
				t.Errorf("mode %d: %s is %s, want %s", mode, field, a, b)
			}
		}
		if len(documents[mode]) != len(want) {
			t.Errorf("mode %d: fields %v, want %v", mode, documents[mode], want)
		}
	}
}

// A swap decides a little before the server's clock, never after it, and does not fall behind further.
func TestSwapsFollowTheServersClock(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	var sent counted
	store := sent.open(t, uri, name, mongostore.Options{})
	buckets := connect(t, uri).Database(name).Collection(mongostore.DefaultCollection)
	var behind []time.Duration
	for range 1000 {
		before := sent.swaps.Load()
		o := apply(t, store, limit, request(1)...)
		var got struct {
			Clock time.Time `bson:"clock"`
		}
		if err := buckets.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if sent.swaps.Load() > before {
			behind = append(behind, got.Clock.Sub(o.At))
		}
	}
	if len(behind) < 900 {
		t.Fatalf("%d swaps, %d pipelines", sent.swaps.Load(), sent.pipelines.Load())
	}
	late := slices.Clone(behind[len(behind)-100:])
	slices.Sort(behind)
	slices.Sort(late)
	t.Logf("behind: %v at least, %v median, %v p99, %v at most; in the end %v median", behind[0], behind[len(behind)/2], behind[len(behind)*99/100], behind[len(behind)-1], late[50])
	if behind[0] < 0 || late[50] > 30*time.Millisecond {
		t.Errorf("swaps were behind by %v at least, the last ones by %v", behind[0], late[50])
	}
}
