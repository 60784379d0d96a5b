package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/headway-go/headway/internal/calls/seldom"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
)

const (
	// dispatcherRest is the longest time between two looks of the dispatcher on duty. With dispatcherLease, another
	// process takes over within two seconds.
	dispatcherRest = 1500 * time.Millisecond
	// dispatcherLease is how much later than it said the one on duty may look, before another process takes over.
	dispatcherLease = 400 * time.Millisecond
	// dispatcherPause is the shortest time between two looks.
	dispatcherPause = 10 * time.Millisecond
	// headsMost is how many tasks at the head of a waitlist are planned at once, promotedMost how many promoted ones. See
	// reads.
	headsMost    = 256
	promotedMost = 1024
	// wakePause is how soon a task is woken again that its last worker has not put back yet. It doubles, up to
	// wakePauseMost.
	wakePause     = 5 * time.Millisecond
	wakePauseMost = 2 * time.Second
	// wakeTries bounds that: the worker of a task that has not been put back then is taken to be dead.
	wakeTries = 9
	// refreshMost is how many waitlists are looked through when the limits have changed.
	refreshMost = 10000
	// CallTimeout bounds one call to Redis.
	CallTimeout = 5 * time.Second
	// errorPause is how soon Redis is asked again after an error. It doubles, up to errorPauseMost.
	errorPause     = 100 * time.Millisecond
	errorPauseMost = 2 * time.Second
)

// PauseAfter returns how long to wait until Redis is asked again: last is the pause before, zero where there was no
// error. It is zero if err is nil.
func PauseAfter(err error, last time.Duration) time.Duration {
	if err == nil {
		return 0
	}
	return min(max(errorPause, 2*last), errorPauseMost)
}

// promoter promotes waiting tasks when their tokens are there. Every started scheduler runs one; the one that
// holds the lease in Redis is on duty for the fleet. All its state is in Redis, so any other takes over.
type promoter struct {
	s  *Dispatcher
	id string

	onDuty atomic.Bool
	behind atomic.Bool // buckets of waitlists may not follow the limits yet

	mu    sync.Mutex // guards next, and the setting of timer
	next  time.Time  // when to look
	timer *time.Timer

	// What is below belongs to the goroutine of run.
	reads   reads
	paused  map[string]bool // by queue, as of checked: nothing is taken from it
	seen    map[string]bool // the queues that were checked then
	checked time.Time
	awake   []waking
	unwoken seldom.Warning // warnings of queues that can't be woken
	pause   time.Duration  // after an error; zero when there was none
}

func newPromoter(s *Dispatcher) *promoter {
	return &promoter{s: s, id: uuid.NewString(), timer: time.NewTimer(0), paused: map[string]bool{}, reads: reads{}}
}

// look has the dispatcher look in d, unless it looks sooner anyway.
func (d *promoter) look(in time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := time.Now().Add(in); at.Before(d.next) {
		d.next = at
		d.timer.Reset(in)
	}
}

// run looks at the waitlists until ctx ends, and then gives up the duty.
func (d *promoter) run(ctx context.Context) {
	stop := d.s.list.Listen(ctx, func(in time.Duration) {
		if in < 0 || d.onDuty.Load() {
			d.look(max(0, in))
		}
	})
	defer stop()
	if d.s.limiter != nil {
		defer inside.Of(d.s.limiter).OnChange(func() { d.behind.Store(true) })()
	}
	defer d.resign(ctx)
	defer d.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.timer.C:
		}
		began := time.Now()
		d.mu.Lock()
		d.next = began.Add(dispatcherRest) // look may make it earlier meanwhile
		d.mu.Unlock()
		rest, err := d.dispatch(ctx)
		if d.heal(ctx, err); err != nil {
			rest = d.pause
		}
		d.look(rest)
		d.mu.Lock()
		if soonest := began.Add(max(dispatcherPause, d.pause)); d.next.Before(soonest) {
			d.next = soonest
		}
		d.timer.Reset(time.Until(d.next))
		d.mu.Unlock()
	}
}

// dispatch looks at the waitlists once, and says how long to rest.
func (d *promoter) dispatch(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	duty := waitlist.Duty{
		ID: d.id, Rest: dispatcherRest, Lease: dispatcherLease, Heads: headsMost, Promoted: promotedMost,
		Few: headsLeast, Some: d.reads,
	}
	if err := d.checkQueues(ctx, nil); err != nil {
		return 0, err
	}
	look, err := d.s.list.Look(ctx, duty, slices.Collect(maps.Keys(d.paused)))
	if err != nil {
		return 0, err
	}
	if d.onDuty.Store(look.OnDuty); !look.OnDuty {
		d.awake, d.seen = nil, nil
		clear(d.reads)
		return look.Rest, nil
	}
	if look.TookOver {
		d.s.log.DebugContext(ctx, "on duty as dispatcher", slog.String("dispatcher", d.id))
		if err = d.takeOver(ctx); err != nil {
			return 0, err
		}
	}
	d.ring(ctx, look.Rung)
	if err = d.checkQueues(ctx, look.Due); err != nil {
		return 0, err
	}
	if err = d.dropDead(ctx, look); err != nil {
		return 0, err
	}
	rest, err := d.promote(ctx, look)
	if err != nil {
		return 0, err
	}
	if again := d.wake(ctx); again > 0 {
		rest = min(rest, again)
	}
	d.refresh(ctx)
	return rest, nil
}

// heal lengthens the pause while Redis can't be reached, and logs when that begins and ends.
func (d *promoter) heal(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if last := d.pause; err == nil && last > 0 {
		d.s.log.InfoContext(ctx, "waitlists are watched again")
	} else if err != nil && last == 0 {
		d.s.log.WarnContext(ctx, "waitlists can't be watched", slog.Any("error", err))
	}
	d.pause = PauseAfter(err, d.pause)
}

// resign lets another process take over at once.
func (d *promoter) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = d.s.list.Resign(ctx, d.id) // the lease ends anyway
}
