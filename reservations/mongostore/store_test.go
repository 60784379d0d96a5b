package mongostore_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/storetest"
)

func connect(tb testing.TB, uri string) *mongo.Client {
	tb.Helper()
	client, err := mongostore.Connect(tb.Context(), uri, testenv.Patient)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
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

// instance is a store on a database of its own, by the server's clock where now is nil.
func instance(tb testing.TB, now func() time.Time) storetest.Instance {
	tb.Helper()
	uri, name := testenv.Mongo(tb)
	store := mongostore.New(connect(tb, uri).Database(name), mongostore.Options{}).WithClock(now)
	store.WithPatience(time.Minute)
	return storetest.Instance{
		Store: store,
		Peer: func(t *testing.T) reservations.Store {
			t.Helper()
			peer := mongostore.New(connect(t, uri).Database(name), mongostore.Options{}).WithClock(now)
			return peer.WithPatience(time.Minute)
		},
	}
}

func controlled(t *testing.T) storetest.Instance {
	t.Helper()
	clock := storetest.NewClock()
	i := instance(t, clock.Now)
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
		return instance(t, nil)
	})
}

var limit = reservations.Limit{Name: "api", Meters: []reservations.Meter{
	{Name: "m", Rate: 10, Period: time.Second, Capacity: 5},
}}

func request(n float64) []bucket.Request {
	return []bucket.Request{{Op: bucket.OpStart, Tokens: []float64{n}}}
}

// The server's clock and the driver's default URI: what production uses.
func TestServerClock(t *testing.T) {
	t.Parallel()
	store := mongostore.New(database(t), mongostore.Options{})
	first, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "k", request(5))
	if err != nil {
		t.Fatal(err)
	}
	if !first[0].Started() || time.Since(first[0].At).Abs() > time.Hour { //gate:ok an hour
		t.Errorf("got %+v", first[0])
	}
	b, now, err := bucket.Read(t.Context(), store, "api", "k")
	if err != nil || b.Version != 1 || !b.At.Equal(first[0].At) || b.Generation != b.At.UnixMilli() {
		t.Errorf("bucket %+v %v", b, err)
	}
	if now.Sub(b.At).Abs() > time.Minute {
		t.Errorf("the clock is %v, the bucket of %v", now, b.At)
	}
	if b, _, err := bucket.Read(t.Context(), store, "api", "other"); err != nil || !b.At.IsZero() {
		t.Errorf("a bucket that is not there: %+v %v", b, err)
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
	if o, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(5)); err != nil || !o[0].Started() {
		t.Errorf("got %+v, %v", o, err)
	}
}

// A bucket expires a minute after it is full again, and fields of a later version survive an update.
func TestStoredDocument(t *testing.T) {
	t.Parallel()
	db := database(t)
	clock := storetest.NewClock()
	store := mongostore.New(db, mongostore.Options{Collection: "elsewhere"}).WithClock(clock.Now)
	buckets := db.Collection("elsewhere")
	if _, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "k", request(5)); err != nil {
		t.Fatal(err)
	}
	later := bson.D{{Key: "$set", Value: bson.D{{Key: "later", Value: 7}}}}
	if _, err := buckets.UpdateByID(t.Context(), "api:k", later); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "k", request(5)); err != nil {
			t.Fatal(err)
		}
	}
	var got struct {
		Later   int       `bson:"later"`
		Expires time.Time `bson:"expires"`
	}
	if err := buckets.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
		t.Fatal(err)
	}
	full := clock.Now().Add(2*time.Second + time.Minute) // 20 tokens at 10 a second
	if got.Later != 7 || !got.Expires.Equal(full) {
		t.Errorf("stored %+v, want later 7, expires %v", got, full)
	}
}

func TestHugeWaits(t *testing.T) {
	t.Parallel()
	db := database(t)
	clock := storetest.NewClock()
	store := mongostore.New(db, mongostore.Options{}).WithClock(clock.Now)
	never := limit
	never.Meters = []reservations.Meter{
		{Name: "m", Rate: 1e-9, Period: time.Hour, Capacity: 5},
	}
	o, err := bucket.Apply(t.Context(), store, bucket.Rules(never), "", append(request(5), request(1e12)...))
	if err != nil {
		t.Fatal(err)
	}
	if o[1].Wait() != bucket.MaxWait {
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
