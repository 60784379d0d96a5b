package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// errLate ends a wait that would last longer than the caller does.
var errLate = errors.New("the call can't start in time")

// Waitlist is where calls wait in line with the tasks of the fleet: the dispatcher of a scheduler, see package inside.
type Waitlist interface {
	Enter(ctx context.Context, g *reservations.Grant)
	Changed(o reservations.Outcome)
}

// line is the waitlist of the limiter. It lets the watch of a caller see what the caller waits for.
type line struct{ Waitlist }

// Enter gives a caller its place.
func (l line) Enter(ctx context.Context, g *reservations.Grant) {
	l.Waitlist.Enter(ctx, g)
	w, ok := ctx.Value(watchKey{}).(*watch)
	if !ok {
		return
	}
	start := inside.Of(g)
	start.TakePlace(&seat{place: start.Place(), grant: g, watch: w})
}

// place is that of a caller in the waitlist.
type place interface {
	Wait(ctx context.Context, stopped int, cause error) error
	Begun()
	Leave(ctx context.Context)
}

// seat is the place of a watched caller.
type seat struct {
	place

	grant  *reservations.Grant
	watch  *watch
	waited bool
}

// Wait lets the watch see what the caller waits for.
func (s *seat) Wait(ctx context.Context, stopped int, cause error) error {
	if first := !s.waited; first && s.watch.retry != "" {
		if k, ok := s.place.(keeping); ok {
			_ = k.Resume(ctx, s.watch.retry) // without it the call is at the end of the line
		}
	}
	s.waited = true
	s.watch.waits(s, stopped, cause) //nolint:contextcheck // it looks beside the wait
	return s.place.Wait(ctx, stopped, cause)
}

// Leave gives up the place. That of a call whose connection is lost is kept for a retry.
func (s *seat) Leave(ctx context.Context) {
	if s.waited && s.watch.lost() {
		if k, ok := s.place.(keeping); ok {
			_ = k.KeepFor(ctx, s.watch.name, true, keptFor) // as above
		}
	}
	s.place.Leave(ctx)
}

// keptFor is how long a place is kept for a retry.
const keptFor = time.Minute

// keeping is a place that can be kept for the retry of a call.
type keeping interface {
	KeepFor(ctx context.Context, call string, leaves bool, d time.Duration) error
	Resume(ctx context.Context, call string) error
}

type watchKey struct{}

// positioned is a place that knows how far it is from its turn.
type positioned interface {
	// Position returns the number of the place, from 1, and when its turn is expected. The number is zero for a caller
	// whose turn has come. Known is false where that can't be read.
	Position(ctx context.Context) (number int, wait time.Duration, known bool)
}

const (
	// positionPatience bounds the look at a place.
	positionPatience = time.Second
	// looksMost is how many places are looked at at once: callers must not take all connections to Redis.
	looksMost = 16
)

// watch is what is known of a caller's wait. Safe for concurrent use.
type watch struct {
	latest time.Time // the last moment at which the call may start; zero if there is none
	give   func(error)
	looks  chan struct{} // the looks at places at once, of all callers
	// name is that of the call, by which its retry finds its place; empty for a call that has no retries. Retry is the
	// name if this is a retry. Gone says that the caller has gone.
	name, retry string
	gone        func() bool

	mu      sync.Mutex // guards what is below
	place   positioned // nil before the first wait
	last    standing
	stopped reservations.Charge // what the caller waits for
	answer  reservations.Outcome
	check   *time.Timer
}

// standing is how a caller stands in line.
type standing struct {
	number int // zero where it is not known
	start  time.Time
}

// checkAfter is how soon after it joined a caller that seems to be too late is looked at.
const checkAfter = 30 * time.Millisecond

// waits says that the caller waits for a bucket.
func (w *watch) waits(at *seat, stopped int, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := inside.Of(at.grant)
	w.place, _ = at.place.(positioned)
	w.stopped = start.Charges()[stopped]
	if cause != nil {
		return
	}
	w.answer = start.Outcomes()[stopped]
	w.last.start = start.Decided(stopped).Add(w.answer.Wait())
	if w.late() && w.check == nil {
		w.check = time.AfterFunc(checkAfter, func() { w.look(context.Background()) })
	}
}

func (w *watch) late() bool { return !w.latest.IsZero() && w.last.start.After(w.latest) }

// look returns how the caller stands, as far as that is known. A caller that can't start in time is given up.
func (w *watch) look(ctx context.Context) standing {
	w.mu.Lock()
	place := w.place
	w.mu.Unlock()
	var number int
	var wait time.Duration
	known := false
	if place != nil {
		looking, cancel := context.WithTimeout(ctx, positionPatience)
		defer cancel()
		select {
		case w.looks <- struct{}{}:
			number, wait, known = place.Position(looking)
			<-w.looks
		case <-looking.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known {
		w.last = standing{number: number, start: time.Now().Add(wait)}
	}
	if w.late() {
		w.give(errLate)
	}
	return w.last
}

// lost says whether the call ends because its connection is lost, or the gateway stops: then a retry may come.
func (w *watch) lost() bool { return w.name != "" && w.gone() }

// keep keeps the place of a call that waits on, should this gateway be killed.
func (w *watch) keep(ctx context.Context) {
	w.mu.Lock()
	k, ok := w.place.(keeping)
	w.mu.Unlock()
	if !ok || w.name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, positionPatience)
	defer cancel()
	_ = k.KeepFor(ctx, w.name, false, keptFor+positionPatience) // the next sign of life tries again
}

// end ends the watch.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.check != nil {
		w.check.Stop()
	}
	w.place = nil
}

// waited is what the caller waited for last, and the answer of its bucket.
func (w *watch) waited() (reservations.Charge, reservations.Outcome, standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped, w.answer, w.last
}
