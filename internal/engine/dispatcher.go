package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/seldom"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
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
	// beginWithin is how long a promoted task has to begin until it counts as waiting again.
	beginWithin = 5 * time.Second
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

// dispatcher promotes waiting tasks when their tokens are there. Every started scheduler runs one; the one that
// holds the lease in Redis is on duty for the fleet. All its state is in Redis, so any other takes over.
type dispatcher struct {
	s  *Engine
	id string

	followed atomic.Pointer[reservations.LimitSet] // that the buckets of all waitlists follow
	onDuty   atomic.Bool

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

// waking is a promoted task that asynq has to deliver, now or again: its last worker had not put it back.
type waking struct {
	task  waitlist.Task
	rank  int // the smaller ones go first
	at    time.Time
	tries int
}

func newDispatcher(s *Engine) *dispatcher {
	return &dispatcher{s: s, id: uuid.NewString(), timer: time.NewTimer(0), paused: map[string]bool{}, reads: reads{}}
}

// look has the dispatcher look in d, unless it looks sooner anyway.
func (d *dispatcher) look(in time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := time.Now().Add(in); at.Before(d.next) {
		d.next = at
		d.timer.Reset(in)
	}
}

// run looks at the waitlists until ctx ends, and then gives up the duty.
func (d *dispatcher) run(ctx context.Context) {
	stop := d.s.list.Listen(ctx, func(in time.Duration) {
		if in < 0 || d.onDuty.Load() {
			d.look(max(0, in))
		}
	})
	defer stop()
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
func (d *dispatcher) dispatch(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	duty := waitlist.Duty{
		ID: d.id, Rest: dispatcherRest, Lease: dispatcherLease, Heads: headsMost, Promoted: promotedMost, Retry: beginWithin,
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

// promote plans every waitlist that is due, and promotes.
func (d *dispatcher) promote(ctx context.Context, look waitlist.Look) (time.Duration, error) {
	rest := look.Rest
	if len(look.Due) == 0 {
		return rest, nil
	}
	plans := make([]waitlist.Plan, 0, len(look.Due))
	rank := map[waitlist.Task]int{} // below zero for urgent tasks
	paused := func(w waitlist.Waiting) bool { return d.paused[w.Queue] }
	for _, due := range look.Due {
		read := len(due.Heads)
		due.Heads = slices.DeleteFunc(due.Heads, paused)
		due.Promoted = slices.DeleteFunc(due.Promoted, paused)
		p, err := plan(due, look.Now, d.s.delivery)
		if err != nil {
			d.s.log.WarnContext(ctx, "state of a bucket not readable", slog.Any("error", err))
		}
		if len(due.Heads) == 0 && len(d.paused) > 0 && (read == 0 || !due.More) {
			p.Next = pausedEvery
		}
		d.reads.learn(due, len(p.Promote))
		for _, w := range due.Heads {
			if w.Urgent {
				rank[w.Task] = -1
			}
		}
		plans = append(plans, p)
		if p.Next > 0 {
			rest = min(rest, p.Next)
		}
	}
	promoted, onDuty, err := d.s.list.Promote(ctx, d.id, plans)
	if err != nil || !onDuty {
		return 0, err
	}
	slices.SortStableFunc(promoted, func(a, b waitlist.Task) int { return cmp.Compare(rank[a], rank[b]) })
	if d.s.Promoted != nil {
		d.s.Promoted(promoted)
	}
	d.deliver(promoted, rank)
	return rest, nil
}

// deliver has the next wake deliver the tasks, each once: a task of a queue that can't be woken is promoted again.
func (d *dispatcher) deliver(promoted []waitlist.Task, rank map[waitlist.Task]int) {
	if len(d.awake) > 0 {
		again := map[waitlist.Task]bool{}
		for _, t := range promoted {
			again[t] = true
		}
		d.awake = slices.DeleteFunc(d.awake, func(w waking) bool { return again[w.task] })
	}
	for _, t := range promoted {
		d.awake = append(d.awake, waking{task: t, rank: rank[t]})
	}
}

// wake has asynq deliver the promoted tasks that are due, and says when the next one is. Tasks of a queue that can't be
// woken are due again soon: the other queues do not wait for it.
func (d *dispatcher) wake(ctx context.Context) (next time.Duration) {
	now := time.Now()
	due := map[string][]waking{}
	d.awake = slices.DeleteFunc(d.awake, func(w waking) bool {
		if w.at.After(now) {
			return false
		}
		due[w.task.Queue] = append(due[w.task.Queue], w)
		return true
	})
	for queue, all := range due {
		err := d.wakeQueue(ctx, queue, all)
		if err == nil {
			continue
		}
		for _, w := range all {
			w.at = now.Add(errorPause)
			d.awake = append(d.awake, w)
		}
		if d.unwoken.Due(now) {
			d.s.log.WarnContext(ctx, "promoted tasks are not delivered yet",
				slog.String("queue", queue), slog.Int("tasks", len(all)), slog.Any("error", err))
		}
	}
	for _, w := range d.awake {
		if in := max(time.Millisecond, time.Until(w.at)); next == 0 || in < next {
			next = in
		}
	}
	return next
}

// wakeQueue has asynq deliver tasks of one queue, urgent ones first, or calls promoted callers.
func (d *dispatcher) wakeQueue(ctx context.Context, queue string, all []waking) error {
	slices.SortStableFunc(all, func(a, b waking) int { return cmp.Compare(a.rank, b.rank) })
	tasks, ids, urgent := make([]waitlist.Task, len(all)), make([]string, len(all)), 0
	for i, w := range all {
		tasks[i], ids[i], urgent = w.task, w.task.ID, urgent-w.rank
	}
	if queue == waitlist.QueueCallers {
		return d.s.list.Call(ctx, tasks)
	}
	results, err := d.s.queues.Wake(ctx, queue, ids, urgent)
	for i, r := range results {
		d.woke(ctx, all[i], r)
	}
	return err
}

// woke sees to a task that asynq could not deliver.
func (d *dispatcher) woke(ctx context.Context, w waking, result asynqdb.Wake) {
	switch result {
	case asynqdb.Woken, asynqdb.Away:
	case asynqdb.Active:
		if w.tries < wakeTries {
			w.at = time.Now().Add(min(wakePause<<w.tries, wakePauseMost))
			w.tries++
			d.awake = append(d.awake, w)
			return
		}
		if err := d.s.list.Park(ctx, []waitlist.Task{w.task}); err != nil {
			d.s.log.DebugContext(ctx, "promoted task of a dead worker still counts",
				slog.String("task_id", w.task.ID), slog.Any("error", err))
		}
	case asynqdb.Unknown:
		d.lost(ctx, w.task)
	}
}

// lost sees to a promoted task that asynq has in none of its sets. A task that was deleted or archived leaves the
// waitlists.
func (d *dispatcher) lost(ctx context.Context, t waitlist.Task) {
	info, err := d.s.inspector.GetTaskInfo(t.Queue, t.ID)
	switch {
	case err != nil && !asynqdb.Gone(err):
		d.awake = append(d.awake, waking{task: t, at: time.Now().Add(wakePauseMost)})
		return
	case err == nil && info.State == asynq.TaskStateAggregating:
		if err = d.s.inspector.RunTask(t.Queue, t.ID); err == nil || !asynqdb.Gone(err) {
			return
		}
	case err == nil && info.State != asynq.TaskStateArchived && info.State != asynq.TaskStateCompleted:
		d.awake = append(d.awake, waking{task: t, at: time.Now().Add(wakePause)})
		return
	}
	d.s.after(ctx, "ended task still in a waitlist",
		func(ctx context.Context) error { return d.s.leaveEnded(ctx, t, info) }, slog.String("task_id", t.ID))
}

// ring has asynq deliver the tasks whose timers were due. What is reserved for a task that had to start by now is
// released at once. That is so even if no worker is free to end the task.
func (d *dispatcher) ring(ctx context.Context, rung []waitlist.Rung) {
	ids := map[string][]string{}
	var expired []waitlist.Task
	for _, r := range rung {
		ids[r.Queue] = append(ids[r.Queue], r.ID)
		if r.Waits {
			expired = append(expired, r.Task)
		}
	}
	for queue, of := range ids {
		if _, err := d.s.queues.Wake(ctx, queue, of, 0); err != nil {
			d.s.log.WarnContext(ctx, "tasks are delivered up to two seconds after their time",
				slog.String("queue", queue), slog.Int("tasks", len(of)), slog.Any("error", err))
		}
	}
	if len(expired) == 0 {
		return
	}
	d.s.after(ctx, "expired tasks still in a waitlist", func(ctx context.Context) (err error) {
		for _, t := range slices.Compact(expired) {
			info, _ := d.s.inspector.GetTaskInfo(t.Queue, t.ID) // where it can't be read, the reservation heals by refill
			err = errors.Join(err, d.s.leaveEnded(ctx, t, info))
		}
		return err
	})
}

// takeOver wakes every promoted task once more: the last dispatcher may have died before it did.
func (d *dispatcher) takeOver(ctx context.Context) error {
	d.followed.Store(nil)
	all, err := d.s.list.AllPromoted(ctx)
	d.deliver(all, nil)
	return err
}

// checkQueues finds out from which queues nothing is taken: paused ones, and ones without a worker. It asks for the
// queues that it has seen once a second, before a look, and for new ones in sight of it at once. A promoted task of
// such a queue would hold tokens that others can use.
func (d *dispatcher) checkQueues(ctx context.Context, sight []waitlist.Due) error {
	queues := map[string]bool{}
	maps.Copy(queues, d.seen)
	for _, due := range sight {
		for _, w := range due.Heads {
			queues[w.Queue] = true
		}
	}
	delete(queues, waitlist.QueueCallers)
	if len(queues) == len(d.seen) && time.Since(d.checked) < pausedEvery || len(queues) == 0 {
		return nil
	}
	names := slices.Collect(maps.Keys(queues))
	paused, err := d.s.queues.Paused(ctx, names)
	if err != nil {
		return err
	}
	unserved, err := d.s.queues.Unserved(names)
	if err != nil {
		return err
	}
	maps.Copy(paused, unserved)
	maps.DeleteFunc(paused, func(_ string, is bool) bool { return !is })
	d.paused, d.checked, d.seen = paused, time.Now(), queues
	return nil
}

// refresh has the buckets of the waitlists follow the limits where these have changed, so that waiting tasks start
// by the new ones. Only the dispatcher on duty does so, in the background: the store may be away.
func (d *dispatcher) refresh(ctx context.Context) {
	if d.s.limiter == nil {
		return
	}
	limits := d.s.limiter.Limits()
	if d.followed.Swap(limits) == limits {
		return
	}
	d.s.after(ctx, "not all waitlists follow the changed limits yet", func(ctx context.Context) error {
		err := d.s.refreshBuckets(ctx, limits)
		if err != nil {
			d.followed.CompareAndSwap(limits, nil)
		}
		return err
	})
}

// heal lengthens the pause while Redis can't be reached, and logs when that begins and ends.
func (d *dispatcher) heal(ctx context.Context, err error) {
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
func (d *dispatcher) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = d.s.list.Resign(ctx, d.id) // the lease ends anyway
}
