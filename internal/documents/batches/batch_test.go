package batches_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/documents/batches"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	want := batches.Batch{
		ID: "b-1", Name: "in.jsonl", Hash: "h", Lines: 7, Created: time.UnixMilli(1_700_000_000_123).UTC(),
		Key: "key", Limit: "openai", State: batches.StateOpen,
	}
	got, existed, err := s.Open(t.Context(), want)
	if err != nil || existed {
		t.Fatal(existed, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again := batches.Batch{ID: "b-1", Name: "renamed.jsonl", Hash: "h", Lines: 7}
	got, existed, err = s.Open(t.Context(), again)
	if err != nil || !existed {
		t.Fatal(existed, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again.Hash = "other"
	if _, existed, err = s.Open(t.Context(), again); !errors.Is(err, batches.ErrDifferentFile) || !existed {
		t.Error(existed, err)
	}
	if got, err = s.Batch(t.Context(), "b-1"); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%+v %v", got, err)
	}
	defaults, _, err := s.Open(t.Context(), batches.Batch{ID: "b-2", Lines: 1})
	if err != nil || defaults.State != batches.StateOpen ||
		time.Since(defaults.Created).Abs() > time.Hour { //gate:ok an hour
		t.Errorf("%+v %v", defaults, err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	type answer struct {
		existed bool
		err     error
	}
	answers := make(chan answer)
	for range 16 {
		go func() {
			_, existed, err := s.Open(t.Context(), batches.Batch{ID: "b", Hash: "h", Lines: 1})
			answers <- answer{existed, err}
		}()
	}
	made := 0
	for range 16 {
		a := <-answers
		if a.err != nil {
			t.Error(a.err)
		}
		if !a.existed {
			made++
		}
	}
	if made != 1 {
		t.Errorf("opened %d times", made)
	}
}

func TestUnusableNames(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, id := range []string{"", "a/b", "ä", "a b", strings.Repeat("a", 101)} {
		if _, _, err := s.Open(t.Context(), batches.Batch{ID: id, Lines: 1}); !errors.Is(err, batches.ErrBatchID) {
			t.Errorf("open %q: %v", id, err)
		}
		if _, err := s.Batch(t.Context(), id); !errors.Is(err, batches.ErrUnknownBatch) {
			t.Errorf("batch %q: %v", id, err)
		}
		if _, err := s.Counts(t.Context(), id); !errors.Is(err, batches.ErrBatchID) {
			t.Errorf("counts %q: %v", id, err)
		}
		for _, err := range s.All(t.Context(), id) {
			if !errors.Is(err, batches.ErrBatchID) {
				t.Errorf("results %q: %v", id, err)
			}
		}
	}
	for _, line := range []int{-1, 0, 1_000_000_000} {
		if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: line}); !errors.Is(err, batches.ErrLine) {
			t.Errorf("open %d: %v", line, err)
		}
		if err := s.Finish(t.Context(), batches.Result{Batch: "b", Line: line}); !errors.Is(err, batches.ErrLine) {
			t.Errorf("finish %d: %v", line, err)
		}
		if err := s.Attempt(t.Context(), "b", line, "a", batches.Attempt{}); !errors.Is(err, batches.ErrLine) {
			t.Errorf("attempt %d: %v", line, err)
		}
		if _, _, err := s.Find(t.Context(), "b", line); !errors.Is(err, batches.ErrLine) {
			t.Errorf("find %d: %v", line, err)
		}
	}
}

func TestBatchByItsBeginning(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, id := range []string{"abc", "abcd", "abd", "Abx", "zzz-1", "zzz_2"} {
		if _, _, err := s.Open(t.Context(), batches.Batch{ID: id, Lines: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{
		"abc": "abc", "abcd": "abcd", "abd": "abd", "A": "Abx", "zzz-": "zzz-1",
		"zzz_2": "zzz_2",
	} {
		if b, err := s.Batch(t.Context(), id); err != nil || b.ID != want {
			t.Errorf("%s: %q %v, want %q", id, b.ID, err, want)
		}
	}
	for id, want := range map[string]error{
		"a": batches.ErrAmbiguousBatch, "zzz": batches.ErrAmbiguousBatch,
		"b": batches.ErrUnknownBatch, "abcde": batches.ErrUnknownBatch,
	} {
		if _, err := s.Batch(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i, id := range []string{"second", "third", "first"} {
		created := time.UnixMilli([]int64{2000, 1000, 3000}[i])
		if _, _, err := s.Open(t.Context(), batches.Batch{ID: id, Created: created, Lines: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]string{0: "[first second third]", 2: "[first second]", 9: "[first second third]"} {
		found, err := s.List(t.Context(), limit)
		var ids []string
		for _, b := range found {
			ids = append(ids, b.ID)
		}
		if got := fmt.Sprint(ids); err != nil || got != want {
			t.Errorf("%d: %s %v", limit, got, err)
		}
	}
}

func TestProgressOfABatch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Lines: 9}); err != nil {
		t.Fatal(err)
	}
	expect := func(enqueued int, state batches.State) {
		t.Helper()
		if b, err := s.Batch(t.Context(), "b"); err != nil || b.Enqueued != enqueued || b.State != state {
			t.Errorf("%+v %v, want %d %s", b, err, enqueued, state)
		}
	}
	for _, upTo := range []int{5, 3} {
		if err := s.SetEnqueued(t.Context(), "b", upTo); err != nil {
			t.Error(err)
		}
		expect(5, batches.StateOpen)
	}
	if err := s.Cancel(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	expect(5, batches.StateCancelled)
	if err := s.SetEnqueued(t.Context(), "b", 6); !errors.Is(err, batches.ErrCancelled) {
		t.Error(err)
	}
	expect(6, batches.StateCancelled)
	if err := s.Resume(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	expect(6, batches.StateOpen)
	for _, err := range []error{
		s.SetEnqueued(t.Context(), "x", 1), s.Cancel(t.Context(), "x"),
		s.Resume(t.Context(), "x"),
	} {
		if !errors.Is(err, batches.ErrUnknownBatch) {
			t.Error(err)
		}
	}
}
