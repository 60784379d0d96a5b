package bounded_test

import (
	"sync"
	"testing"

	"github.com/headway-go/headway/internal/calls/bounded"
)

func TestMap(t *testing.T) {
	t.Parallel()
	m := bounded.Map[int, int]{Most: 3}
	add := func(key, n int) { m.Change(key, func(v *int) { *v += n }) }
	kept := func() (n int) {
		for key := range 100 {
			if m.Get(key) != 0 {
				n++
			}
		}
		return n
	}
	if m.Delete(1); m.Get(1) != 0 {
		t.Error("a new map has a value")
	}
	add(1, 2)
	add(1, 3)
	if got := m.Get(1); got != 5 {
		t.Errorf("the value is %d, want 5", got)
	}
	add(2, 1)
	add(3, 1)
	if add(1, 1); kept() != 3 {
		t.Errorf("a known key displaced another one: %d keys", kept())
	}
	for key := range 100 {
		if add(key, 1); m.Get(key) == 0 {
			t.Errorf("new key %d is not there", key)
		}
	}
	if kept() != 3 {
		t.Errorf("%d keys, want 3", kept())
	}
	if m.Delete(99); kept() != 2 {
		t.Errorf("%d keys after a deletion, want 2", kept())
	}
	var group sync.WaitGroup
	for key := range 10 {
		group.Go(func() { add(key, m.Get(key)+1) })
	}
	group.Wait()
}
