package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

const (
	// popMost is how many tasks are taken out of their lines at once.
	popMost = 128
	// popPause is the shortest time between two looks at the lines.
	popPause = 10 * time.Millisecond
	// activePause is how soon a task is tried again that asynq has not put back into its queue yet. It doubles, up to lease.
	activePause = 5 * time.Millisecond
	// activeKept is how many of those are remembered; beyond that all are forgotten, for another waker may have seen to them.
	activeKept = 4096
	// movesTogether is how many lines are moved by one script: Redis does nothing else meanwhile.
	movesTogether = 256
	// errorPause is how soon Redis is asked again after an error. It doubles, up to errorPauseMost.
	errorPause     = 100 * time.Millisecond
	errorPauseMost = 2 * time.Second
)

// waker watches the lines and sends tasks on their way when they are due. Any number may do so, in any number of processes;
// each task is taken by one of them. One of them is on duty, the others look in now and then whether it still is, and
// when a task of their own process came to stand in front.
type waker struct {
	lines     lines
	inspector *asynq.Inspector
	rouser    rouser
	id        string
	early     time.Duration
	logger    *slog.Logger
	// observe is told of each look at the lines, for tests. May be nil.
	observe func(look)

	signal chan struct{} // holds one: something below has changed
	mu     sync.Mutex    // guards what is below
	next   time.Time     // when to look at the lines
	moved  map[string]movement
	freed  bool // the outage line is due

	// What is below belongs to the goroutine of run, and to leave after it.
	notes  []attended
	active map[Task]time.Duration // the last pause of tasks that asynq had not put back yet
	pause  time.Duration          // after an error; zero when there was none
}

// look is what came of one look at the lines.
type look struct {
	tasks []Task
	moves int
	err   error
}

func newWaker(l lines, inspector *asynq.Inspector, c Config) *waker {
	return &waker{
		lines: l, inspector: inspector, rouser: newRouser(l.client, inspector), id: uuid.NewString(), early: c.WakeEarly, logger: c.Logger,
		signal: make(chan struct{}, 1), moved: map[string]movement{}, active: map[Task]time.Duration{},
	}
}

// bring has the waker look when a task is due in d that nobody may know of yet.
func (w *waker) bring(d time.Duration) {
	w.mu.Lock()
	at := time.Now().Add(d - w.early)
	sooner := at.Before(w.next)
	if sooner {
		w.next = at
	}
	w.mu.Unlock()
	if sooner {
		w.wakeUp()
	}
}

// move has the line follow the bucket's answer. Of several answers that wait to be sent the newest counts, and the gaps of all.
func (w *waker) move(m movement) {
	w.mu.Lock()
	known, ok := w.moved[m.line]
	gap := min(known.gap+m.gap, reservations.MaxWait)
	if ok && known.version >= m.version {
		m = known
	}
	m.gap = gap
	w.moved[m.line] = m
	w.mu.Unlock()
	w.wakeUp()
}

// release has everybody in the outage line come at once.
func (w *waker) release() {
	w.mu.Lock()
	w.freed = true
	w.mu.Unlock()
	w.wakeUp()
}

func (w *waker) wakeUp() {
	select {
	case w.signal <- struct{}{}:
	default: // a signal is waiting already
	}
}

// run looks at the lines until stop is closed. A look that is under way then is finished, unless ctx ends.
func (w *waker) run(ctx context.Context, stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := time.Time{}
	for {
		timer.Reset(w.rest(last))
		select {
		case <-stop:
			return
		case <-w.signal:
			continue
		case <-timer.C:
		}
		last = time.Now()
		w.look(ctx)
	}
}

// rest is how long to wait from now: until the next look, but at once where a line has moved, and never without a pause.
func (w *waker) rest(last time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.next
	if len(w.moved) > 0 || w.freed {
		at = time.Time{}
	}
	if soonest := last.Add(max(popPause, w.pause)); at.Before(soonest) {
		at = soonest
	}
	return time.Until(at)
}

// look sends the movements of lines and, where it is time, takes due tasks out of them and wakes those.
func (w *waker) look(ctx context.Context) {
	var l look
	var taken dueTasks
	if l.moves, l.err = w.sendMoves(ctx); l.err == nil && w.isTime() {
		taken, l.err = w.pop(ctx, popMost)
	}
	w.heal(ctx, l.err)
	l.tasks = taken.all()
	w.wake(ctx, taken)
	if w.observe != nil {
		w.observe(l)
	}
}

func (w *waker) isTime() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !time.Now().Before(w.next)
}

// sendMoves has the lines follow what buckets answered. What could not be sent is kept.
func (w *waker) sendMoves(ctx context.Context) (int, error) {
	w.mu.Lock()
	moves, freed := slices.Collect(maps.Values(w.moved)), w.freed
	clear(w.moved)
	w.freed = false
	w.mu.Unlock()
	if freed {
		if err := w.sendRelease(ctx); err != nil {
			for _, m := range moves {
				w.move(m)
			}
			return 0, err
		}
	}
	if len(moves) == 0 {
		return 0, nil
	}
	sent := 0
	for together := range slices.Chunk(moves, movesTogether) {
		first, earlier, err := w.lines.move(ctx, together)
		if err != nil {
			for _, m := range moves[sent:] {
				w.move(m)
			}
			return sent, err
		}
		if earlier {
			w.bring(first)
		}
		sent += len(together)
	}
	return sent, nil
}

// sendRelease makes the outage line due. What could not be sent is kept.
func (w *waker) sendRelease(ctx context.Context) error {
	first, earlier, err := w.lines.release(ctx)
	if err != nil {
		w.release()
		return err
	}
	if earlier {
		w.bring(first)
	}
	return nil
}

// pop takes due tasks and sets the time of the next look. Notes that could not be sent are kept.
func (w *waker) pop(ctx context.Context, most int) (dueTasks, error) {
	w.mu.Lock()
	w.next = time.Now().Add(restMost) // bring may make it earlier while Redis is asked
	w.mu.Unlock()
	taken, rest, err := w.lines.pop(ctx, w.id, w.early, most, w.notes)
	if err != nil {
		return dueTasks{}, err
	}
	w.notes = nil
	w.bring(rest + w.early)
	return taken, nil
}

// heal lengthens the pause while Redis can't be reached, and says when that begins and ends.
func (w *waker) heal(ctx context.Context, err error) {
	switch {
	case err == nil && w.pause > 0:
		w.pause = 0
		w.logger.InfoContext(ctx, "waiting tasks are watched again")
	case err != nil && w.pause == 0:
		w.logger.WarnContext(ctx, "waiting tasks can't be watched", slog.Any("error", err))
		fallthrough
	case err != nil:
		w.pause = min(max(errorPause, 2*w.pause), errorPauseMost)
	}
}

// wake has asynq deliver the tasks next and notes what became of each.
func (w *waker) wake(ctx context.Context, tasks dueTasks) {
	if len(tasks.urgent)+len(tasks.ordinary) == 0 {
		return
	}
	for _, n := range w.rouser.wake(ctx, tasks) {
		w.note(n)
	}
}

// note keeps the answer for the next look. A task that is still active is tried after pauses that double.
func (w *waker) note(n attended) {
	if n.again == 0 {
		delete(w.active, n.task)
	} else {
		n.again = min(max(n.again, 2*w.active[n.task]), lease)
		if len(w.active) >= activeKept {
			clear(w.active)
		}
		w.active[n.task] = n.again
	}
	w.notes = append(w.notes, n)
}

// owes says whether there is something left to send. It is called when run has ended, or has never begun.
func (w *waker) owes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.moved)+len(w.notes) > 0 || w.freed
}

// leave sends what is left and takes the waker off duty. It is called when run has ended.
func (w *waker) leave(ctx context.Context) error {
	_, err := w.sendMoves(ctx)
	_, popErr := w.pop(ctx, 0)
	return errors.Join(err, popErr)
}

// Moved tells that a bucket's answer, to a settlement above all, carries the shift of its line. It never blocks: the waker
// sends the newest answer of each bucket on, or Stop does. The zero Outcome is ignored.
func (s *Scheduler) Moved(bucket string, o reservations.Outcome) { s.withdrawn(bucket, o, 0) }

// withdrawn is Moved when ordinary tasks were withdrawn that would have taken gap of the line's time.
func (s *Scheduler) withdrawn(bucket string, o reservations.Outcome, gap time.Duration) {
	if o.At.IsZero() {
		return
	}
	s.Answered()
	for _, m := range movementsOf(bucket, o, time.Now()) {
		m.gap, gap = gap, 0
		s.heard.news(m)
		s.waker.move(m)
	}
}
