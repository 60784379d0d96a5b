package mongostore_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// A document that is no bucket, and a key that the server does not take, are errors of that bucket alone, and never a
// start.
func TestFaultsOfOneDocument(t *testing.T) {
	t.Parallel()
	db := database(t)
	store := mongostore.New(db, mongostore.Options{})
	buckets := db.Collection(mongostore.DefaultCollection)
	if _, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "good", request(1)); err != nil {
		t.Fatal(err)
	}
	var good bson.M
	if err := buckets.FindOne(t.Context(), bson.D{{Key: "_id", Value: "api:good"}}).Decode(&good); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]bson.M{
		"foreign":             {"at": "yesterday", "meters": "m"},
		"no tag":              {"tag": nil},
		"no version":          {"v": 0},
		"a text for a moment": {"at": "2026"},
		"no meters":           {"meters": bson.A{}},
		"a number as meter":   {"meters": bson.A{7}},
		"no name":             {"meters": bson.A{bson.M{"n": "", "rate": 1., "cap": 1.}}},
		"no rate":             {"meters": bson.A{bson.M{"n": "m", "s": 1., "r": 1., "cap": 1.}}},
		"not a number":        {"meters": bson.A{bson.M{"n": "m", "s": math.NaN(), "r": 1., "rate": 1., "cap": 1.}}},
		"a negative period":   {"meters": bson.A{bson.M{"n": "m", "s": 1., "r": 1., "rate": 1., "cap": 1., "period": -1}}},
		"a text as inbox":     {"inbox": "letters"},
		"a text as answers":   {"replies": "many"},
	} {
		document := bson.M{}
		maps.Copy(document, good)
		maps.Copy(document, change)
		document["_id"] = "api:" + what
		if _, err := buckets.InsertOne(t.Context(), document); err != nil {
			t.Fatal(err)
		}
		_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), what, request(1))
		wantBucketFault(t, what, err)
		_, _, err = bucket.Read(t.Context(), store, limit.Name, what)
		wantBucketFault(t, what, err)
		if err := store.Reset(t.Context(), limit.Name, what); err != nil {
			t.Fatal(err)
		}
		if o, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), what, request(1)); err != nil || !o[0].Started() {
			t.Errorf("%s, after a reset: %+v %v", what, o, err)
		}
	}
	random := strings.Builder{} // does not compress
	for x := uint32(1); random.Len() < 17<<20; x = x*1664525 + 1013904223 {
		random.WriteByte('a' + byte(x>>24)%26)
	}
	for what, length := range map[string]int{"a long key": 9000, "a key larger than a document": 17 << 20} {
		_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), random.String()[:length], request(1))
		if length == 9000 && err == nil {
			continue // MongoDB takes it
		}
		wantBucketFault(t, what, err)
	}
	if o, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "good", request(1)); err != nil || !o[0].Started() {
		t.Errorf("another bucket: %+v %v", o, err)
	}
}

// A document so large that the server needs seconds for it is a fault of its bucket while others are answered.
func TestSlowDocument(t *testing.T) {
	t.Parallel()
	db := database(t)
	store := mongostore.New(db, mongostore.Options{})
	if _, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "large", request(1)); err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, 900_000)
	for i := range ids {
		ids[i] = math.MaxInt64 - int64(i)
	}
	buckets := db.Collection(mongostore.DefaultCollection)
	if _, err := buckets.UpdateByID(t.Context(), "api:large", bson.M{"$set": bson.M{"ids": ids}}); err != nil {
		t.Fatal(err)
	}
	others, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for others.Err() == nil {
				_, _ = bucket.Apply(others, store, bucket.Rules(limit), "good", request(0)) // its answers are what counts
			}
		})
	}
	var err error
	for range 30 { // a machine that stalls gets no answers for others
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) //gate:ok meant to expire
		_, err = bucket.Apply(ctx, store, bucket.Rules(limit), "large", request(1))
		cancel()
		if err == nil || errors.Is(err, bucket.ErrBucket) { // a fast server answers in time
			break
		}
	}
	end()
	asking.Wait()
	if err != nil && !errors.Is(err, bucket.ErrBucket) {
		t.Errorf("beside answers for others: %v", err)
	}
}

func wantBucketFault(t *testing.T, what string, err error) {
	t.Helper()
	var u *bucket.UnavailableError
	if !errors.Is(err, bucket.ErrBucket) || !errors.Is(err, reservations.ErrUnavailable) || !errors.As(err, &u) {
		text := "nil"
		if err != nil {
			text = err.Error()
		}
		t.Errorf("%s: got %T ...%s", what, err, text[max(0, len(text)-400):])
		return
	}
	if u.Applied != bucket.AppliedNo {
		t.Errorf("%s: applied %q: %.300v", what, u.Applied, err)
	}
}
