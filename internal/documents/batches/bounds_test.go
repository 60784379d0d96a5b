package batches_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
)

// A request that fails many times, with the longest and most malformed answers and names, gets a result in the end.
func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	long := strings.Repeat("\x00é\xff", 1000)
	for i := range batches.AttemptsMost + 20 {
		a := batches.Attempt{At: time.UnixMilli(int64(i)), Error: fmt.Sprint(i, long)}
		if err := s.Attempt(t.Context(), "b", 1, "c\x00", a); err != nil {
			t.Fatal(err)
		}
	}
	r := batches.Result{
		Batch: "b", Line: 1, CustomID: "c\x00", Model: "m\x00", Response: &batches.Response{
			StatusCode: 400,
			RequestID:  strings.Repeat(long, 500), Body: random(6 << 20),
		},
		Request: random(7 << 20), Attempts: []batches.Attempt{{At: time.UnixMilli(-1), Error: long}},
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got := find(t, s, 1)
	if len(got.Attempts) != batches.AttemptsMost+1 || got.Attempts[0].At.UnixMilli() != 0 || got.CustomID != "c\x00" ||
		got.Model != "m\x00" {
		t.Errorf("%d attempts of %q %q", len(got.Attempts), got.CustomID, got.Model)
	}
	if n := len(got.Response.RequestID); n == 0 || n > 1000 || len(got.Response.Body) != 6<<20 ||
		len(got.Request) != 7<<20 {
		t.Errorf("request ID of %d bytes, body of %d, request of %d", n, len(got.Response.Body), len(got.Request))
	}
}

// Reopen holds a few MB of requests at a time, however large all of them are.
func TestReopenHoldsLittle(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const lines = 12
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: lines}); err != nil {
		t.Fatal(err)
	}
	for line := range lines {
		r := failed("b", line+1)
		r.Request = []byte(strings.Repeat("ab", 2<<20))
		if err := s.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	var sent []int
	n, err := s.Reopen(t.Context(), "b", 0, func(_ context.Context, results []batches.Result) error {
		if len(results) > 3 {
			t.Errorf("%d requests of 4 MB at once", len(results))
		}
		for _, r := range results {
			sent = append(sent, r.Line)
		}
		return nil
	})
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, sent); err != nil || n != lines || diff != "" {
		t.Error(n, err, diff)
	}
}

// A batch grows if a raised limit allows lines that were invalid before.
func TestABatchGrows(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, c := range []struct{ lines, requests, wantLines, wantRequests int }{
		{7, 5, 7, 5},
		{9, 8, 9, 8},
		{7, 5, 9, 8},
		{8, 9, 9, 9},
	} {
		b, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Hash: "h", Lines: c.lines, Requests: c.requests})
		if err != nil || b.Lines != c.wantLines || b.Requests != c.wantRequests {
			t.Errorf("%+v: %d of %d lines, %v", c, b.Requests, b.Lines, err)
		}
		if b, err = s.Batch(t.Context(), "b"); err != nil || b.Lines != c.wantLines || b.Requests != c.wantRequests {
			t.Errorf("%+v: stored %d of %d lines, %v", c, b.Requests, b.Lines, err)
		}
	}
}

// A result that is too large for a document is stored without its answer, and long names do not fill documents.
func TestResultsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	s := batches.New(db, batches.Options{})
	store(t, db, "results", "b/000000001", bson.M{"later": make([]byte, 14<<20)}, nil)
	long := strings.Repeat("ä", 1<<20)
	large := batches.Result{Batch: "b", Line: 1, CustomID: "c", Response: &batches.Response{
		StatusCode: 200,
		RequestID:  "r", Body: random(5 << 19),
	}}
	named := batches.Result{
		Batch: "b", Line: 3, CustomID: long, Model: long,
		Response: &batches.Response{StatusCode: 200, RequestID: long, Body: []byte("{}")},
	}
	if err := errors.Join(s.FinishMany(t.Context(), []batches.Result{large, answered("b", 2, 10), named})...); err != nil {
		t.Error(err)
	}
	if r := find(t, s, 1); !r.Failed() || r.Failure.Code != batches.CodeTooLarge || r.Response.RequestID != "r" ||
		len(r.Response.Body) > 0 {
		t.Errorf("too large: %+v", r)
	}
	if r := find(t, s, 3); r.Failed() || len(r.CustomID) != 4096 || len(r.Model) != 4096 ||
		string(r.Response.Body) != "{}" {
		t.Errorf("long names: %d and %d bytes", len(r.CustomID), len(r.Model))
	}
	store(t, db, "results", "b/000000004", bson.M{"later": make([]byte, documents.Largest-80)}, nil)
	large.Line = 4
	if err := s.Finish(t.Context(), large); !errors.Is(err, batches.ErrTooLarge) ||
		errors.Is(err, batches.ErrUnavailable) {
		t.Errorf("no room at all: %v", err)
	}
	a := attempt(1)
	a.Error = strings.Repeat("x", 1000)
	if err := s.Attempt(t.Context(), "b", 4, "c", a); !errors.Is(err, batches.ErrTooLarge) ||
		errors.Is(err, batches.ErrUnavailable) {
		t.Errorf("no room for an attempt: %v", err)
	}
}
