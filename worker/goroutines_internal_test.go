package worker

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"
)

// goroutineOf returns the line of a stack that names the calling goroutine.
func goroutineOf() string {
	stack := make([]byte, 64)
	line, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte(" ["))
	return string(line)
}

// An idle goroutine runs the next function. Without an idle one, a new goroutine does. Idle goroutines end when stop
// is closed, and the zero value keeps none: synctest fails if a goroutine is left.
func TestGoroutinesAreUsedAgain(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"kept": true, "zero": false} {
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			var g goroutines
			if kept {
				g = goroutines{next: make(chan func()), stop: stop}
			}
			var ran []string
			for range 2 {
				g.run(func() { ran = append(ran, goroutineOf()) })
				synctest.Wait()
			}
			if again := ran[0] == ran[1]; again != kept {
				t.Errorf("%s: the second function ran in %s, the first in %s", name, ran[1], ran[0])
			}
			both := make(chan struct{})
			g.run(func() { <-both })
			g.run(func() { close(both) }) // while the first blocks
			synctest.Wait()
			close(stop)
		})
	}
}
