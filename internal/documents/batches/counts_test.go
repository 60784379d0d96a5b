package batches_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/documents/batches"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if c, err := s.Counts(t.Context(), "b"); err != nil || c != (batches.Counts{}) {
		t.Errorf("%+v %v", c, err)
	}
	if err := s.Attempt(t.Context(), "b", 1, "", attempt(1)); err != nil { // another attempt will follow
		t.Fatal(err)
	}
	if c, err := s.Counts(t.Context(), "b"); err != nil || c != (batches.Counts{Retried: 1, Unanswered: 1}) {
		t.Errorf("%+v %v", c, err)
	}
	if err := s.Name(t.Context(), "b", []batches.Named{{Line: 5, CustomID: "e"}}); err != nil {
		t.Fatal(err)
	}
	done := answered("b", 2, 10)
	done.Attempts, done.Finished = []batches.Attempt{attempt(1)}, time.UnixMilli(2000).UTC()
	twice := failed("b", 3)
	twice.Attempts, twice.Finished = []batches.Attempt{attempt(1), attempt(2)}, time.UnixMilli(1000).UTC()
	atOnce := failed("b", 4) // not retried
	atOnce.Finished, atOnce.Usage.Used = time.UnixMilli(3000).UTC(), 5
	if err := errors.Join(s.FinishMany(t.Context(), []batches.Result{
		done, twice, atOnce,
		answered("c", 1, 10),
	})...); err != nil {
		t.Fatal(err)
	}
	want := batches.Counts{
		Done: 1, Failed: 2, Retried: 3, Unanswered: 2, Usage: batches.Usage{
			Reserved: 300, Used: 205, Prompt: 150,
			Completion: 50,
		},
		First: time.UnixMilli(1000).UTC(), Last: time.UnixMilli(3000).UTC(),
	}
	got, err := s.Counts(t.Context(), "b")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A Counter returns what Counts returns, whatever was finished or put back in between.
func TestCounter(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const lines = 3500
	counter := s.Counter("b")
	if _, err := counter.Progress(t.Context()); !errors.Is(err, batches.ErrUnknownBatch) {
		t.Error(err)
	}
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: lines}); err != nil {
		t.Fatal(err)
	}
	compare := func() {
		t.Helper()
		want, err := s.Counts(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		got, err := counter.Progress(t.Context())
		if diff := cmp.Diff(want, got.Counts); err != nil || diff != "" || got.ID != "b" ||
			len(got.Models) > 0 && got.Models["gpt-4o-mini"] != want.Usage {
			t.Fatal(err, diff, got.Models)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	var order []int // whole thousands early, single lines late
	for _, n := range []int{1, 0, 3, 2} {
		for i := range 1000 {
			if line := 1000*n + i; line >= 1 && line <= lines {
				order = append(order, line)
			}
		}
	}
	order[500], order[len(order)-1] = order[len(order)-1], order[500]
	for len(order) > 0 {
		n := min(len(order), 1+random.IntN(400))
		var results []batches.Result
		for _, line := range order[:n] {
			r := answered("b", line, 10)
			if random.IntN(10) == 0 {
				r = failed("b", line)
			}
			if line < 1800 { // a block that has ended within the last minute is read again later
				r.Finished = time.Now().Add(-time.Hour)
			}
			results = append(results, r)
		}
		order = order[n:]
		s.FinishMany(t.Context(), results)
		compare()
		if random.IntN(4) == 0 {
			if _, err := s.Reopen(t.Context(), "b", 0, func(_ context.Context, results []batches.Result) error {
				for _, r := range results {
					order = append(order, r.Line)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			compare()
		}
	}
	if c, err := counter.Progress(t.Context()); err != nil || c.Done+c.Failed != lines {
		t.Errorf("%+v %v", c, err)
	}
}
