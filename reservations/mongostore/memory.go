package mongostore

import (
	"slices"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/reservations/internal/stored"
)

const (
	// memoryMost is how many buckets a Store remembers.
	memoryMost = 1024
	// discardedMost bounds the answers that a push removes.
	discardedMost = 64
	// busyFor is how long calls leave their requests in the inbox at once, after one that found others there.
	busyFor = time.Second
)

// memory is what this process remembers of the buckets it used last. Set Most. Safe for concurrent use.
type memory struct {
	bounded.Map[string, remembered]
}

type remembered struct {
	state               // of this process's last swap
	steady    bool      // no other process wrote between its last two swaps
	busy      time.Time // last sight of other processes in the inbox
	discarded []string  // answers: the next push removes them
}

// steady returns a state from which a swap may start without a read, and the moment at which it decides.
func (m *memory) steady(name string, clock func() time.Time) (state, time.Time, bool) {
	r := m.Get(name)
	if !r.steady {
		return state{}, time.Time{}, false
	}
	if clock != nil {
		return r.state, clock(), true
	}
	return r.state, r.now(), r.reading().Fresh()
}

func (s state) reading() stored.Reading { return stored.Reading{Clock: s.Clock, Heard: s.heard} }

// now is a moment that the server's clock has reached. Each swap reads the clock again.
func (s state) now() time.Time { return s.reading().Now() }

// busy says whether several processes compete for the bucket.
func (m *memory) busy(name string) bool { return time.Since(m.Get(name).busy) < busyFor }

// pushed remembers what a push returned, which removed the first discarded answers.
func (m *memory) pushed(name string, seen state, removed int) {
	m.Change(name, func(r *remembered) {
		r.Clock, r.heard, r.discarded = seen.Clock, seen.heard, r.discarded[min(removed, len(r.discarded)):]
		if len(seen.Inbox) > 1 {
			r.busy = time.Now()
		}
	})
}

// saw remembers the clock of a read, and answers that the next push removes.
func (m *memory) saw(name string, seen state, discard ...string) {
	m.Change(name, func(r *remembered) {
		all := slices.Concat(r.discarded, discard)
		r.Clock, r.heard, r.discarded = seen.Clock, seen.heard, all[max(0, len(all)-discardedMost):]
	})
}

// wrote remembers a swap that followed on before.
func (m *memory) wrote(name string, before, after state) {
	after.blind = true
	m.Change(name, func(r *remembered) { r.steady, r.state = r.Tag != 0 && r.Tag == before.Tag, after })
}
