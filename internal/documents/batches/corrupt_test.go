package batches_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents/batches"
)

// Every method that reads a malformed document returns ErrMalformed.
func TestCorruptDocuments(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	s := batches.New(db, batches.Options{})
	store(t, db, "batches", "x1", bson.M{"created": "never", "state": 5}, nil)
	if _, err := s.Batch(t.Context(), "x1"); !errors.Is(err, batches.ErrMalformed) {
		t.Errorf("a batch: %v", err)
	}
	for i, fields := range []struct{ head, body bson.M }{
		{bson.M{"status": 5}, nil},
		{bson.M{"status": "done", "at": "never"}, nil},
		{bson.M{"status": "done", "code": 200}, bson.M{"body": bson.Binary{Subtype: 0x80, Data: []byte("no zstd")}}},
		{bson.M{"status": "done", "code": 200}, bson.M{"body": bson.Binary{Subtype: 0x05, Data: []byte("x")}}},
		{bson.M{"status": "failed", "tries": "none"}, nil},
		{bson.M{"custom": bson.A{1}}, nil},
		{bson.M{"status": "failed", "failure": 3}, nil},
		{bson.M{"status": "failed", "kept": true}, bson.M{"request": 1.5}},
	} {
		batch := fmt.Sprintf("b%d", i)
		store(t, db, "results", batch+"/000000001", fields.head, fields.body)
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
	db := newDocuments(t)
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
	for line := range malformed {
		key := fmt.Sprintf("b/%09d", line)
		var head bson.M
		if err := bson.Unmarshal(stored(t, db, "results", key).Head, &head); err != nil {
			t.Fatal(err)
		}
		head["at"] = "never"
		store(t, db, "results", key, head, nil)
	}
	for _, id := range []string{"b/1", "b/5x", "b/"} { // none of a line
		store(t, db, "results", id, bson.M{"custom": "c", "status": "failed"}, nil)
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
	if n != 296 || sent != 296 || err != nil { // of four failed ones the request can't be read
		t.Errorf("%d sent, %d, %v", n, sent, err)
	}
}
