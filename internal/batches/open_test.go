package batches_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/batches"
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
	unanswered, err := s.Unanswered(t.Context(), "b", 1, 9)
	if err != nil || unanswered.Len() != 2 || !unanswered.Has(1) || !unanswered.Has(3) {
		t.Errorf("%+v, %v", unanswered, err)
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
	if _, err := s.Reopen(t.Context(), "b", func(context.Context, []batches.Result) error { return nil }); err != nil {
		t.Fatal(err)
	}
	before, err := s.Finished(t.Context(), "b", 1, 20)
	if err != nil || before.Len() != 18 {
		t.Fatal(before, err)
	}
	for line := 1; line <= 20; line++ {
		if before.Has(line) == (before.Round(line) == 1) {
			t.Errorf("line %d has a result: %v; round %d", line, before.Has(line), before.Round(line))
		}
		if err = s.Finish(t.Context(), batches.Result{
			Batch: "b", Line: line,
			Response: &batches.Response{StatusCode: 200},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := s.Finished(t.Context(), "b", 1, 20); err != nil || after.Len() != 20 || after.Round(10) != 0 {
		t.Error(after, err)
	}
}

func TestUsageByModelAndSince(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, model := range []string{"a", "b", "a", ""} {
		r := batches.Result{
			Batch: "b", Line: i + 1, Model: model, Finished: at.Add(time.Duration(i) * time.Minute),
			Response: &batches.Response{StatusCode: 200}, Usage: batches.Usage{Used: 10, Prompt: 4, Completion: 6},
		}
		if err := s.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	usage, err := s.UsageByModel(t.Context(), "b")
	one := batches.Usage{Used: 10, Prompt: 4, Completion: 6}
	want := map[string]batches.Usage{"a": {Used: 20, Prompt: 8, Completion: 12}, "b": one, "": one}
	if diff := cmp.Diff(want, usage); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for from, n := range map[time.Duration]int{0: 4, time.Minute: 3, 3 * time.Minute: 1, time.Hour: 0} {
		slots, failed := s.Since(t.Context(), "b", at.Add(from), time.Hour)
		if n == 0 && failed == nil && len(slots) == 0 {
			continue
		}
		if failed != nil || len(slots) != 1 || slots[0].Done != n || slots[0].Usage.Used != float64(10*n) {
			t.Errorf("since %v: %+v, %v", from, slots, failed)
		}
	}
	slots, err := s.Since(t.Context(), "b", at, 2*time.Minute)
	if err != nil || len(slots) != 2 {
		t.Fatal(slots, err)
	}
	for i, slot := range slots {
		first := at.Add(time.Duration(i) * 2 * time.Minute)
		if slot.Done != 2 || !slot.First.Equal(first) || !slot.Last.Equal(first.Add(time.Minute)) {
			t.Errorf("slot %d is %+v", i, slot)
		}
	}
}
