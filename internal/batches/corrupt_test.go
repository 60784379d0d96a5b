package batches_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
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

// A document that can't be read ends no list: it is named by its line, and all others follow.
func TestCorruptDocumentsHideNoOthers(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	s := batches.New(db, batches.Options{})
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 600, Requests: 600}); err != nil {
		t.Fatal(err)
	}
	for line := 1; line <= 600; line++ {
		r := batches.Result{Batch: "b", Line: line, CustomID: "c", Request: []byte(`{}`)}
		if line%2 == 0 {
			r.Response = &batches.Response{StatusCode: 200}
		}
		if err := s.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	malformed := map[int]bool{1: true, 199: true, 200: true, 201: true, 401: true, 600: true}
	results := db.Collection("headway_results")
	for line := range malformed {
		id := fmt.Sprintf("b/%09d", line)
		if _, err := results.UpdateByID(t.Context(), id, bson.M{"$set": bson.M{"at": "never"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"b/1", "b/5x", "b/"} { // none of a line
		if _, err := results.InsertOne(t.Context(), bson.M{"_id": id, "custom": "c", "status": "failed"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		list iter.Seq2[batches.Result, error]
		step int
	}{"all": {s.All(t.Context(), "b"), 1}, "failed": {s.FailedOnes(t.Context(), "b"), 2}} {
		next, unnamed := 1, 0
		for r, err := range c.list {
			if (err != nil) != (malformed[r.Line] || r.Line == 0) || err != nil && !errors.Is(err, batches.ErrMalformed) {
				t.Fatalf("%s: line %d: %v", name, r.Line, err)
			}
			if r.Line == 0 {
				unnamed++
				continue
			}
			if r.Line != next || r.CustomID != "c" ||
				err != nil && !strings.Contains(err.Error(), fmt.Sprintf("line %d of batch", r.Line)) {
				t.Fatalf("%s: line %d instead of %d: %+v, %v", name, r.Line, next, r, err)
			}
			next += c.step
		}
		if next != 601 || unnamed != 2 { // "b/" comes before all lines
			t.Errorf("%s: ended at line %d, %d without a line", name, next, unnamed)
		}
	}
	if lines, err := s.Lines(t.Context(), "b", 1, 600); err != nil || len(lines) != 600 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	sent := 0
	n, err := s.Reopen(t.Context(), "b", 0, func(_ context.Context, r []batches.Result) error {
		sent += len(r)
		return nil
	})
	// What is put back has no "at" any more, and can be read again.
	if n != 300 || sent != 300 || err != nil {
		t.Errorf("%d sent, %d, %v", n, sent, err)
	}
}
