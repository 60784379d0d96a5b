package works_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/bench/works"
)

func TestWorksAreSound(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		names := map[string]bool{}
		for _, w := range works.All(quick) {
			if names[w.Name] || w.Name == "" || w.About == "" || w.Letter == "" || w.Ideal <= 0 {
				t.Errorf("work %q: the name is there twice, or something is missing", w.Name)
			}
			names[w.Name] = true
			if w.Idle == 0 && (w.Wanted() == 0 || w.Wanted() > len(w.Tasks)) {
				t.Errorf("work %s wants %d starts of %d tasks", w.Name, w.Wanted(), len(w.Tasks))
			}
			if w.At != nil && len(w.At) != len(w.Tasks) {
				t.Errorf("work %s has %d tasks and %d times", w.Name, len(w.Tasks), len(w.At))
			}
			for i, task := range w.Tasks {
				if task.Seq != i || task.Used > task.Reserved {
					t.Fatalf("work %s, task %d: %+v", w.Name, i, task)
				}
			}
			if w.CutAfter() < w.Ideal {
				t.Errorf("work %s is cut off after %v, and takes %v", w.Name, w.CutAfter(), w.Ideal)
			}
		}
	}
}

func TestIdealTimesFollowFromTheLimits(t *testing.T) {
	t.Parallel()
	for _, w := range works.All(false) {
		if w.Local || w.At != nil || w.UntilKey != "" || w.Down.For > 0 || w.First > 0 || w.EnqueueOnly || w.Idle > 0 {
			continue
		}
		tokens := -w.Limits[0].Burst
		for _, task := range w.Tasks {
			tokens += float64(task.Used)
		}
		ideal := time.Duration(tokens / w.Limits[0].Rate * float64(time.Second))
		if w.Ideal < ideal || w.Ideal > ideal+ideal/10+time.Second {
			t.Errorf("work %s: ideal %v, its limit allows %v", w.Name, w.Ideal, ideal)
		}
	}
}
