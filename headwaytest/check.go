package headwaytest

import (
	"fmt"
	"time"
)

// check fails the test if a call of the test has a problem: an argument that can't be used. It is the one place where
// arguments are refused.
func (f *Fleet) check(call string, problems ...string) {
	f.t.Helper()
	if f.closed.Load() {
		f.fatalf("%s: the fleet has ended: call it within play", call)
	}
	for _, p := range problems {
		if p != "" {
			f.fatalf("%s: %s", call, p)
		}
	}
}

// closing reports whether the play has ended.
func (f *Fleet) closing() bool { return isClosed(f.ended) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// given is the problem of a function that is missing.
func given(name string, is bool) string {
	if is {
		return ""
	}
	return name + " is nil: must be a function"
}

// fromZero is the problem of a negative time.
func fromZero(name string, d time.Duration) string {
	if d >= 0 {
		return ""
	}
	return fmt.Sprintf("%s is %v: must be zero or more", name, d)
}

// least is the problem of a number that is too small.
func least(name string, n, bound int) string {
	if n >= bound {
		return ""
	}
	return fmt.Sprintf("%s is %d: must be at least %d", name, n, bound)
}

// share is the problem of a share of all calls or messages.
func share(name string, s float64) string {
	if s >= 0 && s <= 1 {
		return ""
	}
	return fmt.Sprintf("%s is %v: must be from 0 to 1", name, s)
}
