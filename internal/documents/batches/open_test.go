package batches_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/documents/batches"
)

func TestNamedRequests(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, _, err := s.Open(t.Context(), batches.Batch{
		ID: "b", Lines: 9, Requests: 9, Queue: "q", Model: "m",
		Retries: 3,
	}); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Batch(t.Context(), "b"); err != nil || b.Requests != 9 || b.Queue != "q" || b.Model != "m" ||
		b.Retries != 3 {
		t.Errorf("%+v, %v", b, err)
	}
	done := batches.Result{
		Batch: "b", Line: 2, CustomID: "two", Model: "m",
		Response: &batches.Response{StatusCode: 200}, Usage: batches.Usage{Used: 5, Prompt: 3, Completion: 2},
	}
	if err := s.Finish(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if err := s.Name(t.Context(), "b", []batches.Named{
		{Line: 3, CustomID: "three"},
		{Line: 2, CustomID: "wrong"},
		{Line: 1, CustomID: "one"},
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range s.All(t.Context(), "b") {
		if err != nil {
			t.Fatal(err)
		}
		text := r.CustomID
		if r.Finished.IsZero() {
			text += " open"
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"one open", "two", "three open"}, got); diff != "" {
		t.Error(diff)
	}
	lines, err := s.Lines(t.Context(), "b", 1, 9)
	if err != nil || len(lines) != 3 || !lines.Open(1) || !lines.Ended(2) || !lines.Open(3) {
		t.Errorf("%+v, %v", lines, err)
	}
	if c, err := s.Counts(t.Context(), "b"); err != nil || c.Done != 1 || c.Failed != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestRoundsOfOpenRequests(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 20}); err != nil {
		t.Fatal(err)
	}
	fill(t, s, "b", 20, 5)
	if _, err := s.Reopen(t.Context(), "b", 0, func(context.Context, []batches.Result) error { return nil }); err != nil {
		t.Fatal(err)
	}
	before, err := s.Lines(t.Context(), "b", 1, 20)
	if err != nil || len(before) != 20 {
		t.Fatal(before, err)
	}
	for line := 1; line <= 20; line++ {
		if open := line%10 == 0; before.Ended(line) == open || (before.Round(line) == 1) != open {
			t.Errorf("line %d has a result: %v; round %d", line, before.Ended(line), before.Round(line))
		}
		if err = s.Finish(t.Context(), batches.Result{
			Batch: "b", Line: line,
			Response: &batches.Response{StatusCode: 200},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := s.Lines(t.Context(), "b", 1, 20); err != nil || !after.Ended(10) || after.Round(10) != 0 {
		t.Error(after, err)
	}
}

func TestUsageByModelAndLately(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	s := batches.New(newDocuments(t), batches.Options{Now: func() time.Time { return now }})
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 6}); err != nil {
		t.Fatal(err)
	}
	ago := []time.Duration{time.Hour, 30 * time.Second, 29500 * time.Millisecond, time.Minute, 61 * time.Second, 0}
	for i, model := range []string{"a", "b", "a", "", "a", "b"} {
		r := batches.Result{
			Batch: "b", Line: i + 1, Model: model, Finished: now.Add(-ago[i]),
			Response: &batches.Response{StatusCode: 200}, Usage: batches.Usage{Used: 10, Prompt: 4, Completion: 6},
		}
		if err := s.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	counter := s.Counter("b")
	counts := func(n int, first, last time.Duration) batches.Counts {
		return batches.Counts{
			Done: n, First: now.Add(-first), Last: now.Add(-last), Usage: batches.Usage{
				Used: float64(10 * n), Prompt: float64(4 * n), Completion: float64(6 * n),
			},
		}
	}
	want := map[string]batches.Usage{
		"a": counts(3, 0, 0).Usage, "b": counts(2, 0, 0).Usage, "": counts(1, 0, 0).Usage,
	}
	lately := []batches.Counts{
		counts(1, time.Minute, time.Minute), counts(2, ago[1], ago[2]), counts(1, 0, 0),
	}
	all, began := counts(6, time.Hour, 0), now
	for _, tc := range []struct {
		later time.Duration
		left  []batches.Counts
	}{{0, lately}, {time.Second, lately[1:]}, {time.Hour, nil}} {
		now = began.Add(tc.later)
		for range 2 { // the second one reads nothing that was full before
			p, err := counter.Progress(t.Context())
			if diff := cmp.Diff(want, p.Models); diff != "" || err != nil || p.Counts != all {
				t.Error(tc.later, diff, err, p.Counts)
			}
			if diff := cmp.Diff(tc.left, p.Lately); diff != "" {
				t.Error(tc.later, diff)
			}
		}
	}
}

// The record of a batch that was opened before batches had keys gets one when its file is enqueued again: no worker
// accepts its requests without.
func TestABatchWithoutAKeyGetsOne(t *testing.T) {
	t.Parallel()
	in := newDocuments(t)
	s := batches.New(in, batches.Options{})
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 9}); err != nil {
		t.Fatal(err)
	}
	store(t, in, "batches", "b", map[string]any{"lines": 9, "state": "open"}, nil)
	b, existed, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 9})
	if err != nil || !existed || b.Key == "" {
		t.Fatalf("%+v, %v, %v", b, existed, err)
	}
	if again, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 9}); err != nil || again.Key != b.Key {
		t.Errorf("the key has changed: %v", err)
	}
}
