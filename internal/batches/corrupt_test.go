package batches_test

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/testenv"
)

// Every method that reads a malformed document returns ErrMalformed.
func TestCorruptDocuments(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	s := batches.New(db, batches.Options{})
	if _, err := db.Collection("headway_batches").InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "x1"},
		{Key: "created", Value: "never"},
		{Key: "state", Value: 5},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Batch(t.Context(), "x1"); !errors.Is(err, batches.ErrMalformed) {
		t.Errorf("a batch: %v", err)
	}
	for i, fields := range []bson.D{
		{{Key: "status", Value: 5}},
		{{Key: "status", Value: "done"}, {Key: "at", Value: "never"}},
		{
			{Key: "status", Value: "done"},
			{Key: "code", Value: 200},
			{Key: "body", Value: bson.Binary{Subtype: 0x80, Data: []byte("no zstd")}},
		},
		{
			{Key: "status", Value: "done"},
			{Key: "code", Value: 200},
			{Key: "body", Value: bson.Binary{Subtype: 0x05, Data: []byte("x")}},
		},
		{{Key: "status", Value: "failed"}, {Key: "tries", Value: "none"}},
		{{Key: "custom", Value: bson.A{1}}},
		{{Key: "status", Value: "failed"}, {Key: "failure", Value: 3}},
		{{Key: "request", Value: 1.5}},
	} {
		batch := fmt.Sprintf("b%d", i)
		if fields[0].Key != "custom" {
			fields = append(fields, bson.E{Key: "custom", Value: "c"})
		}
		if _, err := db.Collection("headway_results").InsertOne(t.Context(),
			append(bson.D{{Key: "_id", Value: batch + "/000000001"}}, fields...)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Find(t.Context(), batch, 1); !errors.Is(err, batches.ErrMalformed) {
			t.Errorf("%v: found: %v", fields, err)
		}
		var last error
		for _, err := range s.All(t.Context(), batch) {
			last = err
		}
		if !errors.Is(last, batches.ErrMalformed) {
			t.Errorf("%v: all: %v", fields, last)
		}
		if _, err := s.Counts(t.Context(), batch); err != nil && !errors.Is(err, batches.ErrMalformed) {
			t.Errorf("%v: counts: %v", fields, err) // as an outage it would hide the other batches
		}
	}
}
