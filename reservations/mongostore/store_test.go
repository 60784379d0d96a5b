package mongostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/storetest"
)

func connect(tb testing.TB, uri string) *mongo.Client {
	tb.Helper()
	client, err := mongostore.Connect(tb.Context(), uri)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		if err := client.Disconnect(ctx); err != nil {
			tb.Error(err)
		}
	})
	return client
}

// database is one that this test has for itself.
func database(tb testing.TB) *mongo.Database {
	tb.Helper()
	uri, name := testenv.Mongo(tb)
	return connect(tb, uri).Database(name)
}

func instance(tb testing.TB, now func() time.Time, mode mongostore.Swapping) storetest.Instance {
	tb.Helper()
	uri, name := testenv.Mongo(tb)
	options := mongostore.Options{Now: now}.With(mode)
	store := mongostore.New(connect(tb, uri).Database(name), options)
	return storetest.Instance{
		Store: store,
		Peer: func(t *testing.T) reservations.Store {
			t.Helper()
			return mongostore.New(connect(t, uri).Database(name), options)
		},
	}
}

// modes are the ways in which a store may decide: by itself and swap, by the pipeline, or by what fits.
func modes() map[string]mongostore.Swapping {
	return map[string]mongostore.Swapping{"adaptive": mongostore.SwapAdaptive, "swaps": mongostore.SwapAlways, "pipelines": mongostore.SwapNever}
}

// inEachMode runs test with a function that opens an instance whose clock the test sets, and with one on the server's clock.
func inEachMode(t *testing.T, test func(t *testing.T, controlled, live func(t *testing.T) storetest.Instance)) {
	t.Helper()
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T) storetest.Instance {
				t.Helper()
				clock := storetest.NewClock()
				i := instance(t, clock.Now, mode)
				i.Advance = clock.Advance
				return i
			}, func(t *testing.T) storetest.Instance {
				t.Helper()
				return instance(t, nil, mode)
			})
		})
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, controlled, _ func(t *testing.T) storetest.Instance) {
		t.Helper()
		storetest.Run(t, controlled)
	})
}

func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, controlled, _ func(t *testing.T) storetest.Instance) {
		t.Helper()
		storetest.Replay(t, "../testdata/convex_hand.jsonl", 516, controlled)
	})
}

func TestConformanceLive(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, _, live func(t *testing.T) storetest.Instance) {
		t.Helper()
		storetest.RunLive(t, live)
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) storetest.Instance {
		b.Helper()
		return instance(b, nil, mongostore.SwapAdaptive)
	})
}

var limit = reservations.Limit{Name: "api", Meters: []reservations.Meter{
	{Name: "m", Rate: 10, Period: time.Second, Capacity: 5, MaxReserved: reservations.Unlimited},
}}

func request(n float64) []reservations.Request {
	return []reservations.Request{{Op: reservations.OpBegin, Tokens: []float64{n}}}
}

// The server's clock and the driver's default URI: what production uses.
func TestServerClock(t *testing.T) {
	t.Parallel()
	store := mongostore.New(database(t), mongostore.Options{})
	first, err := store.Apply(t.Context(), limit, "k", request(5))
	if err != nil {
		t.Fatal(err)
	}
	if !first[0].Started() || time.Since(first[0].At).Abs() > time.Hour {
		t.Errorf("got %+v", first[0])
	}
	b, ok, err := store.Bucket(t.Context(), "api", "k")
	if err != nil || !ok || b.Version != 1 || !b.At.Equal(first[0].At) || b.Generation != b.At.UnixMilli() {
		t.Errorf("bucket %+v %v %v", b, ok, err)
	}
	if _, ok, err := store.Bucket(t.Context(), "api", "nobody"); ok || err != nil {
		t.Errorf("a bucket that is not there: %v %v", ok, err)
	}
}

func TestWithoutRetryableWrites(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	options, err := mongostore.ClientOptions(uri)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mongo.Connect(options.SetRetryWrites(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	store := mongostore.New(client.Database(name), mongostore.Options{})
	if o, err := store.Apply(t.Context(), limit, "", request(5)); err != nil || !o[0].Started() {
		t.Errorf("got %+v, %v", o, err)
	}
}

// A bucket expires a minute after it is full again, and fields of a later version survive an update.
func TestStoredDocument(t *testing.T) {
	t.Parallel()
	db := database(t)
	clock := storetest.NewClock()
	store := mongostore.New(db, mongostore.Options{Collection: "elsewhere", Now: clock.Now})
	buckets := db.Collection("elsewhere")
	if _, err := buckets.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "api:k"}, {Key: "later", Value: 7}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Apply(t.Context(), limit, "k", append(request(5), request(15)...)); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Later   int            `bson:"later"`
		Expires time.Time      `bson:"expires"`
		Call    map[string]any `bson:"call"`
	}
	if err := buckets.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
		t.Fatal(err)
	}
	full := clock.Now().Add(2*time.Second + time.Minute) // 5 and 15 tokens at 10 a second
	if got.Later != 7 || !got.Expires.Equal(full) || got.Call != nil {
		t.Errorf("stored %+v, want later 7, expires %v and no call", got, full)
	}
}

func TestHugeWaits(t *testing.T) {
	t.Parallel()
	db := database(t)
	clock := storetest.NewClock()
	store := mongostore.New(db, mongostore.Options{Now: clock.Now})
	never := limit
	never.Meters = []reservations.Meter{{Name: "m", Rate: 1e-9, Period: time.Hour, Capacity: 5, MaxReserved: reservations.Unlimited}}
	o, err := store.Apply(t.Context(), never, "", append(request(5), request(1e12)...))
	if err != nil {
		t.Fatal(err)
	}
	if o[1].Wait() != reservations.MaxWait {
		t.Errorf("wait %v, want MaxWait", o[1].Wait())
	}
}

func TestEnsureIndexes(t *testing.T) {
	t.Parallel()
	db := database(t)
	store := mongostore.New(db, mongostore.Options{})
	for range 2 {
		if err := store.EnsureIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	specs, err := db.Collection(mongostore.DefaultCollection).Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if s.Name == "expires" && s.ExpireAfterSeconds != nil && *s.ExpireAfterSeconds == 0 {
			return
		}
	}
	t.Errorf("no TTL index in %+v", specs)
}

// A document that is not ours brings an error, never a start.
func TestForeignDocument(t *testing.T) {
	t.Parallel()
	db := database(t)
	store := mongostore.New(db, mongostore.Options{})
	foreign := bson.D{{Key: "_id", Value: "api"}, {Key: "at", Value: "yesterday"}, {Key: "led", Value: 3}, {Key: "meters", Value: "m"}}
	if _, err := db.Collection(mongostore.DefaultCollection).InsertOne(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Apply(t.Context(), limit, "", request(1)); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("apply: %v", err)
	}
	if _, _, err := store.Bucket(t.Context(), "api", ""); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if err := store.Reset(t.Context(), limit, ""); err != nil {
		t.Fatal(err)
	}
	if o, err := store.Apply(t.Context(), limit, "", request(1)); err != nil || !o[0].Started() {
		t.Errorf("after a reset: %+v %v", o, err)
	}
}
