package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	shiftsKept = 256   // changes of one line's clock that are remembered
	linesKept  = 10000 // lines; beyond that all are forgotten
	// expressMark tells the line of a bucket's urgent tasks from that of the others. No bucket's name holds it.
	expressMark = "\x00express"
)

// Lateness tells how late tasks start. The clock of a line jumps when a settlement gives tokens back, and a task is not late
// for having become due by the jump; so Lateness remembers how the clocks moved. Workers of one process may share one and
// then know more. The zero value is ready; safe for concurrent use.
type Lateness struct {
	mu    sync.Mutex // guards lines
	lines map[string]*line
}

type line struct {
	generation int64
	moves      []move // by version
}

// move is one change of a line's clock.
type move struct {
	version int64
	at      time.Time // on the store's clock
	shift   time.Duration
}

// Observe takes note of the line's clock in a bucket's answer. Answers may come in any order.
func (l *Lateness) Observe(bucket string, o reservations.Outcome) {
	if o.At.IsZero() {
		return
	}
	l.observe(bucket, o, o.Shift)
	if o.Headroom {
		l.observe(bucket+expressMark, o, o.ExpressShift)
	}
}

func (l *Lateness) observe(bucket string, o reservations.Outcome, shift time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) > linesKept || l.lines == nil {
		l.lines = map[string]*line{}
	}
	at, ok := l.lines[bucket]
	if !ok || at.generation < o.Generation {
		at = &line{generation: o.Generation}
		l.lines[bucket] = at
	}
	if at.generation == o.Generation {
		at.insert(move{version: o.Version, at: o.At, shift: shift})
	}
}

// insert keeps the earliest answer that showed each shift.
func (l *line) insert(m move) {
	i, _ := slices.BinarySearchFunc(l.moves, m, func(a, b move) int { return int(min(1, max(-1, a.version-b.version))) })
	if i > 0 && l.moves[i-1].shift == m.shift {
		return
	}
	if i < len(l.moves) && l.moves[i].shift == m.shift {
		l.moves[i] = m
		return
	}
	l.moves = slices.Insert(l.moves, i, m)
	if len(l.moves) > shiftsKept {
		l.moves = slices.Delete(l.moves, 0, len(l.moves)-shiftsKept)
	}
}

// Of is the time from the moment a task with this place was due until at, on the store's clock. Negative before it. False
// where nothing is known: no place, or one of another generation.
func (l *Lateness) Of(bucket string, p reservations.Place, at time.Time) (time.Duration, bool) {
	if p.State == reservations.StateExpress {
		bucket += expressMark
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.lines[bucket]
	if !ok || p.Due.IsZero() || known.generation != p.Generation || len(known.moves) == 0 {
		return 0, false
	}
	return at.Sub(known.dueAt(p.Due)), true
}

// dueAt is the first moment at which the line's clock had reached due.
func (l *line) dueAt(due time.Time) time.Time {
	var moment time.Time
	for i, m := range l.moves {
		moment = due.Add(-m.shift)
		if i > 0 && moment.Before(m.at) {
			moment = m.at
		}
		if i+1 == len(l.moves) || moment.Before(l.moves[i+1].at) {
			break
		}
	}
	return moment
}
