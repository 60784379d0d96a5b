package worker

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

func TestCrew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crew
		rest := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.resting)
		}
		together := func(n int) {
			var all sync.WaitGroup
			all.Add(n)
			release := make(chan struct{})
			for range n {
				c.do(func() {
					all.Done()
					<-release
				})
			}
			all.Wait() // none waits for another
			close(release)
		}
		together(3)
		if n := rest(); n != 0 {
			t.Errorf("%d rest where nobody is kept", n)
		}
		c.keep(2)
		together(3)
		if n := rest(); n != 2 {
			t.Errorf("%d rest of 2 that are kept", n)
		}
		together(5)
		if n := rest(); n != 2 {
			t.Errorf("%d rest after their second work", n)
		}
		c.do(runtime.Goexit)
		if n := rest(); n != 1 {
			t.Errorf("%d rest when one has gone", n)
		}
		release := make(chan struct{})
		c.do(func() { <-release })
		c.dismiss()
		c.dismiss()
		close(release)
		if n := rest(); n != 0 {
			t.Errorf("%d rest when all are dismissed", n)
		}
		together(2)
		if n := rest(); n != 0 {
			t.Errorf("%d rest after the end", n)
		}
	})
}

// The one that worked last works next: its stack is warm, and the others' may shrink.
func TestCrewPrefersTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crew
		c.keep(2)
		first, second := make(chan struct{}), make(chan struct{})
		c.do(func() { <-first })
		c.do(func() { <-second })
		close(second)
		synctest.Wait()
		close(first)
		synctest.Wait()
		last := c.resting[1]
		c.do(func() {})
		synctest.Wait()
		if len(c.resting) != 2 || c.resting[1] != last {
			t.Error("not the last one")
		}
		c.dismiss()
	})
}
