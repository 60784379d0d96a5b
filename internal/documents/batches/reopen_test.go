package batches_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/documents/batches"
)

func TestReopen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const lines = 4500 // the failed ones fill more than two pages
	nothing := func(context.Context, []batches.Result) error { return errors.New("nothing to send") }
	if _, err := s.Reopen(t.Context(), "b", 0, nothing); !errors.Is(err, batches.ErrUnknownBatch) {
		t.Error(err)
	}
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: lines}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Reopen(t.Context(), "b", 0, nothing); n != 0 || err != nil {
		t.Error(n, err)
	}
	fill(t, s, "b", lines, 10)
	fill(t, s, "b2", 20, 10) // must not change
	unkept := failed("b", lines+10)
	unkept.Request = nil
	if err := s.Finish(t.Context(), unkept); err != nil {
		t.Fatal(err)
	}

	// The first call is killed while it sends the second page, the next one before it stores that the third was sent.
	broken := errors.New("broken")
	sent := map[string]int{}
	send := func(stop int) func(context.Context, []batches.Result) error {
		calls := 0
		return func(_ context.Context, results []batches.Result) error {
			for _, r := range results {
				sent[fmt.Sprint(r.Line, "/", r.Round)]++
				want := failed("b", r.Line)
				want.Response, want.Model, want.Round = nil, r.Model, 1
				if diff := cmp.Diff(want, r); diff != "" {
					t.Error(diff)
				}
			}
			if calls++; calls == stop {
				return broken
			}
			return nil
		}
	}
	if n, err := s.Reopen(t.Context(), "b", 0, send(2)); n != 200 || !errors.Is(err, broken) {
		t.Errorf("first: %d %v", n, err)
	}
	if c, err := s.Counts(t.Context(), "b"); err != nil || c.Failed != 1 || c.Done != lines-lines/10 {
		t.Errorf("put back: %+v %v", c, err)
	}
	if n, err := s.Reopen(t.Context(), "b", 0, send(0)); n != 250 || err != nil {
		t.Errorf("second: %d %v", n, err)
	}
	if n, err := s.Reopen(t.Context(), "b", 0, send(0)); n != 0 || err != nil {
		t.Errorf("third: %d %v", n, err)
	}
	if len(sent) != lines/10 {
		t.Errorf("%d requests sent, want %d", len(sent), lines/10)
	}

	// New results are stored: good ones without the request, and bad ones, which can be put back again.
	good := answered("b", 10, 10)
	good.Usage.Used = 7
	bad := failed("b", 20)
	bad.Usage.Used = 3
	bad.Attempts[0].At = time.UnixMilli(5).UTC()
	if err := errors.Join(s.FinishMany(t.Context(), []batches.Result{good, bad})...); err != nil {
		t.Error(err)
	}
	if r := find(t, s, 10); r.Failed() || r.Request != nil || r.Round != 1 || len(r.Attempts) != 1 ||
		r.Usage.Used != 7 {
		t.Errorf("good: %+v", r)
	}
	if r := find(t, s, 20); !r.Failed() || string(r.Request) != string(bad.Request) || len(r.Attempts) != 2 {
		t.Errorf("bad: %+v", r)
	}
	n, err := s.Reopen(t.Context(), "b", 0, func(_ context.Context, results []batches.Result) error {
		if len(results) != 1 || results[0].Line != 20 || results[0].Round != 2 || results[0].Usage.Used != 3 {
			t.Errorf("%+v", results)
		}
		return nil
	})
	if n != 1 || err != nil {
		t.Error(n, err)
	}
	if c, err := s.Counts(t.Context(), "b2"); err != nil || c.Failed != 2 {
		t.Errorf("another batch: %+v %v", c, err)
	}
}

// A request may fail at once and be put back again before the first sender has stored that it was sent. The second
// sender sends it.
func TestReopenTwice(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), failed("b", 1)); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("killed before it was sent")
	if _, err := s.Reopen(t.Context(), "b", 0, func(ctx context.Context, _ []batches.Result) error {
		if err := s.Finish(ctx, failed("b", 1)); err != nil {
			t.Error(err)
		}
		if _, err := s.Reopen(ctx, "b", 0,
			func(context.Context, []batches.Result) error { return broken }); !errors.Is(err, broken) {
			t.Error(err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	rounds := []int{}
	if n, err := s.Reopen(t.Context(), "b", 0, func(_ context.Context, results []batches.Result) error {
		rounds = append(rounds, results[0].Round)
		return nil
	}); n != 1 || err != nil || rounds[0] != 2 {
		t.Error(n, err, rounds)
	}
}
