package batches_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
)

// Results expire after 30 days. In each process its record expires later than all of its
// results.
func TestRetention(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
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
	expires := func(collection, key string) time.Time { return stored(t, db, collection, key).Expires }
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
}
