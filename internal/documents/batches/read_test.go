package batches_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/test/seeded"
)

// fill stores results of the lines 1 to n; every tenth failed.
func fill(tb testing.TB, s *batches.Store, batch string, n, length int) {
	tb.Helper()
	var results []batches.Result
	for line := 1; line <= n; line++ {
		r := answered(batch, line, length)
		if line%10 == 0 {
			r = failed(batch, line)
		}
		results = append(results, r)
		if len(results) == 500 || line == n {
			if err := errors.Join(s.FinishMany(tb.Context(), results)...); err != nil {
				tb.Fatal(err)
			}
			results = results[:0]
		}
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for batch, n := range map[string]int{"b": 400, "b-": 401, "none": 0, "a": 399} { // numbers around whole pages
		fill(t, s, batch, n, 10)
		if err := s.Attempt(t.Context(), batch, n+1, "not finished", attempt(1)); err != nil {
			t.Fatal(err)
		}
		next, bad := 1, 0
		for r, err := range s.All(t.Context(), batch) {
			if err == nil && r.Finished.IsZero() {
				continue
			}
			if err != nil || r.Batch != batch || r.Line != next || r.Failed() != (next%10 == 0) {
				t.Fatalf("%s: %+v %v, want line %d", batch, r, err, next)
			}
			next++
		}
		for r, err := range s.FailedOnes(t.Context(), batch) {
			bad++
			if err != nil || r.Line != 10*bad || !r.Failed() {
				t.Fatalf("%s: %+v %v", batch, r, err)
			}
		}
		if next != n+1 || bad != n/10 {
			t.Errorf("%s: %d results, %d failed", batch, next-1, bad)
		}
	}
	n := 0
	for _, err := range s.All(t.Context(), "b") {
		if n++; n == 3 || err != nil {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	var last error
	for _, err := range s.All(ctx, "b") {
		if n++; n == 5 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n < 5 {
		t.Errorf("ended after %d with %v", n, last)
	}
}

// A request that failed without an attempt, such as an expired one, has its failure as its error.
func TestTrouble(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	early, late := attempt(1).At, attempt(9).At
	expired := batches.Result{Batch: "b", Finished: late, Failure: &batches.Failure{Code: "expired", Message: "too late"}}
	for line := range 2 {
		expired.Line = line + 1
		if err := s.Finish(t.Context(), expired); err != nil {
			t.Fatal(err)
		}
	}
	other := batches.Result{Batch: "b", Line: 3, Finished: early, Failure: &batches.Failure{Code: "other", Message: "no"}}
	if err := s.Finish(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		attempt int
		want    batches.Trouble
	}{
		{5, batches.Trouble{Requests: 2, Attempt: batches.Attempt{At: late, Error: "expired: too late"}}},
		{10, batches.Trouble{Requests: 2, Attempt: attempt(10)}}, // with the fifth
	} {
		if err := s.Attempt(t.Context(), "b", c.attempt, "a", attempt(c.attempt)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Trouble(t.Context(), "b"); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%+v, %v, want %+v", got, err, c.want)
		}
	}
}

func TestFinished(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, line := range []int{1, 2, 64, 65, 130, 999} {
		if err := s.Finish(t.Context(), answered("b", line, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Attempt(t.Context(), "b", 3, "a", attempt(1)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to int
		want     []int
	}{{1, 1000, []int{1, 2, 64, 65, 130, 999}}, {2, 65, []int{2, 64, 65}}, {3, 63, nil}, {999, 999, []int{999}}, {
		5, 4,
		nil,
	}} {
		lines, err := s.Lines(t.Context(), "b", c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		for line := range 1100 {
			if lines.Ended(line) != slices.Contains(c.want, line) {
				t.Errorf("%d to %d: %d", c.from, c.to, line)
			}
		}
	}
	if _, err := s.Lines(t.Context(), "b", 0, 3); !errors.Is(err, batches.ErrLine) {
		t.Error(err)
	}
	if _, err := s.Lines(t.Context(), "b", 1, 1<<40); !errors.Is(err, batches.ErrLine) {
		t.Error(err)
	}
}

// Any result is read as it was stored.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	line := 0
	seeded.Check(t, func(t *rapid.T) {
		line++
		want := batches.Result{
			Batch: "b", Line: line, CustomID: rapid.String().Draw(t, "id"), Model: rapid.String().Draw(t, "model"),
			Usage: batches.Usage{
				Reserved: rapid.Float64Range(0, 1e9).Draw(t, "reserved"),
				Used:     rapid.Float64Range(0, 1e9).Draw(t, "used"),
			},
			Finished: attempt(line).At,
		}
		if rapid.Bool().Draw(t, "answered") {
			want.Response = &batches.Response{
				StatusCode: rapid.IntRange(0, 999).Draw(t, "code"),
				RequestID:  rapid.String().Draw(t, "rid"),
			}
			if body := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "body"); len(body) > 0 {
				want.Response.Body = body
			}
		}
		if rapid.Bool().Draw(t, "failure") {
			want.Failure = &batches.Failure{Code: rapid.String().Draw(t, "failure code"), Message: rapid.StringN(0, 100,
				1000).Draw(t, "message")}
		}
		if want.Failed() {
			want.Request = []byte("{}")
		}
		for n := range rapid.IntRange(0, 3).Draw(t, "attempts") {
			want.Attempts = append(want.Attempts, attempt(n))
		}
		if err := s.Finish(context.Background(), want); err != nil {
			t.Fatal(err)
		}
		got, ok, err := s.Find(context.Background(), "b", line)
		if diff := cmp.Diff(want, got); !ok || err != nil || diff != "" {
			t.Fatal(ok, err, diff)
		}
	})
}
