package scheduler

import (
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	// heardMost bounds how many lines a process remembers the clocks of.
	heardMost = 4096
	// heardApart is how far two readings of a clock may be apart to be the same: times are cut to milliseconds on their way.
	heardApart = 5 * time.Millisecond
)

// heard remembers what this process was last told of the clocks of lines, whether it sent that on or not. The zero value is ready. Safe for
// concurrent use.
type heard struct {
	mu    sync.Mutex // guards what is below
	lines map[string]movement
}

// news remembers m, and says whether the line's clock reads otherwise than by what was heard before. The first that is heard of a line is none.
func (h *heard) news(m movement) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.lines[m.line]
	if ok && m.version <= known.version {
		return false
	}
	if len(h.lines) >= heardMost && !ok {
		clear(h.lines) // those that are used are heard again
	}
	if h.lines == nil {
		h.lines = map[string]movement{}
	}
	moved := ok && (m.speed != known.speed || (m.reading(m.at)-known.reading(m.at)).Abs() > heardApart)
	if ok && !moved { // what was told stays: many small steps are a large one
		known.version = m.version
		m = known
	}
	h.lines[m.line] = m
	return moved
}

// reading is how far the line's clock is ahead of the bucket's at that moment.
func (m movement) reading(at time.Time) time.Duration {
	return m.shift + time.Duration(float64(at.Sub(m.at))*(m.speed-1))
}

// Heard tells of an answer of a bucket that let a task start. Nobody else sends such an answer on, so where the line's clock is not as this
// process knew it, the line follows, as by Moved: after a change of the limit, those who wait for it may go by the answer to a process that
// did not know of the change yet, and where they all start in time and nothing is settled, nobody else would tell.
func (s *Scheduler) Heard(bucket string, o reservations.Outcome) {
	if o.At.IsZero() {
		return
	}
	if m := movementOf(bucket, o, time.Now()); s.heard.news(m) {
		s.waker.move(m)
	}
}
