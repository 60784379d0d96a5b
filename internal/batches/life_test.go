package batches_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/testenv"
)

// Results expire after 30 days. In each process its record expires later than all of its
// results.
func TestRetention(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	stores := []*batches.Store{
		batches.New(db, batches.Options{Now: clock}),
		batches.New(db, batches.Options{Now: clock}),
	}
	if err := stores[0].EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stores[1].EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := stores[0].Open(t.Context(), batches.Batch{ID: "b", Lines: 1000}); err != nil {
		t.Fatal(err)
	}
	expires := func(collection, id string) time.Time {
		t.Helper()
		raw, err := db.Collection(batches.Prefix+collection).FindOne(t.Context(),
			bson.D{{Key: "_id", Value: id}}).Raw()
		if err != nil {
			t.Fatal(err)
		}
		return raw.Lookup("expires").Time()
	}
	line := 0
	for _, step := range []time.Duration{0, time.Hour, 20 * time.Hour, 5 * time.Hour, 40 * 24 * time.Hour, time.Hour} {
		now = now.Add(step)
		for _, s := range stores {
			line++
			if err := s.Finish(t.Context(), answered("b", line, 10)); err != nil {
				t.Fatal(err)
			}
			result, batch := expires("results", fmt.Sprintf("b/%09d", line)), expires("batches", "b")
			if want := now.Add(batches.Retention); !result.Equal(want) {
				t.Errorf("line %d expires %v, want %v", line, result, want)
			}
			if batch.Sub(result) < 24*time.Hour {
				t.Errorf("line %d: the batch expires %v after it", line, batch.Sub(result))
			}
		}
	}
	if err := stores[0].Attempt(t.Context(), "b", 900, "a", attempt(1)); err != nil {
		t.Fatal(err)
	}
	if got := expires("results", "b/000000900"); !got.Equal(now.Add(batches.Retention)) {
		t.Errorf("an attempt expires %v", got)
	}
	if err := stores[0].Finish(t.Context(), answered("unknown", 1, 10)); err != nil {
		t.Fatal(err)
	}
	if got := expires("results", "unknown/000000001"); !got.Equal(now.Add(batches.Retention)) {
		t.Errorf("without a batch: %v", got)
	}
	for _, collection := range []string{"batches", "results"} {
		specs, err := db.Collection(batches.Prefix + collection).Indexes().ListSpecifications(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ttl := false
		for _, s := range specs {
			ttl = ttl || s.Name == "expires" && s.ExpireAfterSeconds != nil && *s.ExpireAfterSeconds == 0
		}
		if !ttl {
			t.Errorf("no TTL index of %s in %+v", collection, specs)
		}
	}
}
