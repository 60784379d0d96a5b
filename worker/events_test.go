package worker_test

import (
	"slices"
	"testing"

	"github.com/headway-go/headway/worker"
)

// Joined events are called one after the other, the second also if the first panics.
func TestEventsWith(t *testing.T) {
	t.Parallel()
	var called []string
	first := worker.Events{
		OnSort: func(worker.Sorted) { called = append(called, "first") },
		OnSync: func(worker.Sync) { panic("first") },
	}
	both := first.With(worker.Events{
		OnSort:  func(worker.Sorted) { called = append(called, "second") },
		OnSync:  func(worker.Sync) { called = append(called, "after the panic") },
		OnStart: func(worker.Start) { called = append(called, "alone") },
	})
	both.OnSort(worker.Sorted{})
	both.OnStart(worker.Start{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		both.OnSync(worker.Sync{})
	}()
	if want := []string{"first", "second", "alone", "after the panic"}; !slices.Equal(called, want) {
		t.Errorf("%v", called)
	}
	if both.OnFinish != nil {
		t.Error("an event that neither has is called")
	}
}
