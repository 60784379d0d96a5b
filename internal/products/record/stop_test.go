package record_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/tasks"
)

// A batch stops at the failure that it may not have: no further call is made. Retried failures and good answers do not
// count. When it goes on, the failures so far are excused.
func TestABatchStopsAtItsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, aBatchStopsAtItsFailures)
}

func aBatchStopsAtItsFailures(t *testing.T) {
	rec, store := newRecorder(t)
	bounded := batches.Batch{ID: "b", Lines: 100, Requests: 100, FailuresMost: 3}
	if _, _, err := store.Open(t.Context(), bounded); err != nil {
		t.Fatal(err)
	}
	line := 0
	try := func(with error) error {
		line++
		return rec.Run(t.Context(), attempt(line, 1), requestOf(line), fails(with))
	}
	stops := func() (b batches.Batch) {
		t.Helper()
		for t.Context().Err() == nil && b.State != batches.StateCancelled { // it is counted in the background
			var err error
			if b, err = store.Batch(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	for _, with := range []error{errBroken, nil, tasks.Permanent(errBroken), tasks.Permanent(errBroken)} {
		if err := try(with); !errors.Is(err, with) {
			t.Fatal(err)
		}
	}
	if b, err := store.Batch(t.Context(), "b"); err != nil || b.State != batches.StateOpen {
		t.Fatalf("after two failures: %+v, %v", b, err)
	}
	_ = try(tasks.Permanent(errBroken))
	if b := stops(); b.StoppedBy != batches.StopFailures {
		t.Errorf("it stopped by %q", b.StoppedBy)
	}
	for err := try(nil); !errors.Is(err, record.ErrCancelled); err = try(nil) { // until this process has seen it
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Resume(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_ = try(tasks.Permanent(errBroken))
	}
	if b, err := store.Batch(t.Context(), "b"); err != nil || b.State != batches.StateOpen || b.StoppedBy != "" {
		t.Fatalf("after two failures more: %+v, %v", b, err)
	}
	_ = try(tasks.Permanent(errBroken))
	stops()
}

// A batch whose last requests fail has ended, and does not stop.
func TestABatchEndsWithItsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, aBatchEndsWithItsFailures)
}

func aBatchEndsWithItsFailures(t *testing.T) {
	rec, store := newRecorder(t)
	bounded := batches.Batch{ID: "b", Lines: 100, Requests: 100, FailuresMost: 2}
	if _, _, err := store.Open(t.Context(), bounded); err != nil {
		t.Fatal(err)
	}
	var answered []batches.Result
	for line := 3; line <= bounded.Lines; line++ {
		answered = append(answered, batches.Result{Batch: "b", Line: line, Response: &batches.Response{StatusCode: 200}})
	}
	if err := errors.Join(store.FinishMany(t.Context(), answered)...); err != nil {
		t.Fatal(err)
	}
	for line := range 2 {
		_ = rec.Run(t.Context(), attempt(line+1, 1), requestOf(line+1), fails(tasks.Permanent(errBroken)))
	}
	rec.Close() // which waits until the failures are counted
	if b, err := store.Batch(t.Context(), "b"); err != nil || b.State != batches.StateOpen {
		t.Errorf("%+v, %v", b, err)
	}
}
