package deadtasks_test

import (
	"testing"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
)

// Newest begins with the task that died last, over more than one page of records.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		const many = 450
		var dead []deadletter.Task
		for n := range many {
			dead = append(dead, died(n))
		}
		if err := s.Recorder().Record(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		next := many - 1
		for task, err := range s.List(t.Context(), deadtasks.Filter{Newest: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := died(next).ID; task.ID != want {
				t.Fatalf("%s is where %s should be", task.ID, want)
			}
			next--
		}
		if next != -1 {
			t.Errorf("%d records are missing", next+1)
		}
	})
}
