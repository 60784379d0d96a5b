package stored

import "time"

const (
	// readingKept is how long a reading of a server's clock is carried on by this machine's.
	readingKept = time.Second
	// driftsBy is one over the drift between two clocks that is allowed for: 1 ms in a second, twice what a clock is
	// slewed by.
	driftsBy = 1000
)

// Reading is what the clock of a server said last.
type Reading struct {
	Clock time.Time
	Heard time.Time // when Clock arrived, by this machine's clock
}

// Now is a moment that the server's clock has reached: its last reading and the time that went by on this machine since
// that arrived. It is behind the server's clock by the way of the answer and the drift that is allowed for. So a swap
// grants a little less than by the server's clock.
func (r Reading) Now() time.Time {
	passed := time.Since(r.Heard)
	return r.Clock.Add(passed - passed/driftsBy)
}

// Fresh says whether a swap may go by Now.
func (r Reading) Fresh() bool {
	passed := time.Since(r.Heard)
	return passed >= 0 && passed <= readingKept
}
