package headwaytest

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a play in virtual time, apart from the goroutine of its test. So a play that can't end fails its test,
// and the other tests of the program run on.
type bubble struct {
	t *testing.T
	// name is that of stacks, as "synctest bubble 1".
	name atomic.Value

	// left says that the test ends without its play, which may report nothing any more.
	left atomic.Bool
	// stopped says that the play did not reach its end.
	stopped atomic.Bool
	// elapsed is the virtual time.
	elapsed atomic.Int64
	// steps returns what grows while the fleet works.
	steps atomic.Pointer[func() int64]
}

// watch says when the watchdog gives a play up. It counts looks instead of time, because a machine that stalls stalls
// the looks too.
var watch = struct { //nolint:gochecknoglobals // tests set it
	// every is the real time between two looks.
	every time.Duration
	// still is the number of looks after which a fleet is stuck in which nothing happens.
	still int
	// busy is the number of looks after which a fleet is stuck whose virtual time does not pass.
	busy int
}{every: time.Second, still: 30, busy: 300}

// run runs the play until its end. If that does not come, run fails the test.
func (b *bubble) run(play func()) {
	b.t.Helper()
	ended, left := make(chan struct{}), any(nil)
	go func() {
		defer close(ended)
		defer func() { left = recover() }() // of goroutines that are left; synctest panics
		synctest.Test(b.t, func(*testing.T) {
			b.name.Store(bubbleOf(stack(false)))
			play()
		})
	}()
	looks := time.NewTicker(watch.every)
	defer looks.Stop()
	var was progress
	for {
		select {
		case <-ended:
			b.end(left)
			return
		case <-looks.C:
			if stuck := was.look(b); stuck != "" {
				b.left.Store(true)
				b.t.Fatalf("headwaytest: %s", stuck)
			}
		}
	}
}

// end ends the test as its play ended.
func (b *bubble) end(left any) {
	b.t.Helper()
	if left != nil {
		b.left.Store(true)
		b.t.Fatalf("headwaytest: goroutines do not end with the play: handlers must return, and leave no goroutine behind: "+
			"%v\n%s", left, describe(b.goroutines()))
	}
	switch {
	case !b.stopped.Load():
	case b.t.Skipped() && !b.t.Failed():
		b.t.SkipNow()
	default:
		b.t.FailNow()
	}
}

// progress is what the watchdog saw last.
type progress struct {
	elapsed, steps int64
	still, busy    int // looks since something happened, and since virtual time passed
}

// look returns why the fleet is stuck, or nothing.
func (p *progress) look(b *bubble) string {
	elapsed, steps := b.elapsed.Load(), int64(0)
	if count := b.steps.Load(); count != nil {
		steps = (*count)()
	}
	p.still, p.busy = p.still+1, p.busy+1
	if steps != p.steps || elapsed != p.elapsed {
		p.still = 0
	}
	if elapsed != p.elapsed {
		p.busy = 0
	}
	p.elapsed, p.steps = elapsed, steps
	still, busy := p.still > watch.still, p.busy > watch.busy
	if !still && !busy {
		return ""
	}
	holding := holding(b.goroutines())
	if still && !busy && len(running(holding)) > 0 {
		return "" // it computes
	}
	return "virtual time stands still at " + time.Duration(elapsed).String() + ". It passes only while all goroutines " +
		"of the fleet wait for time or for each other: not for sockets, processes, mutexes or channels from outside. " +
		"These do not:\n" + describe(holding)
}

// guarded runs code of the test, in a goroutine that the code may end by t.Fatal or t.Skip. Then the whole play ends. A
// panic fails the test.
func (f *Fleet) guarded(what string, do func()) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			f.errorf("%s panicked: %v\n%s", what, value, debug.Stack())
		}
		if !returned {
			f.bubble.stopped.Store(true)
			f.abort()
		}
	}()
	do()
	returned = true
}

// fatalf fails the test, and ends the goroutine of its caller.
func (f *Fleet) fatalf(format string, args ...any) {
	f.t.Helper()
	if f.bubble.left.Load() {
		runtime.Goexit()
	}
	f.t.Fatalf("headwaytest: "+format, args...)
}

// errorf fails the test.
func (f *Fleet) errorf(format string, args ...any) {
	f.t.Helper()
	if !f.bubble.left.Load() {
		f.t.Errorf("headwaytest: "+format, args...)
	}
}

// goroutines returns the stacks of the goroutines of the bubble.
func (b *bubble) goroutines() []string {
	name, ok := b.name.Load().(string)
	if !ok {
		return nil // it has not begun
	}
	return inBubble(stack(true), name)
}
