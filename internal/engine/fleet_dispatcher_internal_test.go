package engine

import (
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// simDispatcher is the dispatcher of one process, with the production plan.
type simDispatcher struct {
	w        *world
	id       int
	next     time.Duration
	looks    int // counts planned looks: an earlier one is void
	busy     bool
	followed *reservations.LimitSet
}

// wake wakes all dispatchers.
func (w *world) wake(in time.Duration) {
	for _, d := range w.dispatching {
		if at := w.now + in; at < d.next {
			d.look(at)
		}
	}
}

// look plans the next look.
func (d *simDispatcher) look(at time.Duration) {
	d.next = at
	if d.busy {
		return
	}
	d.looks++
	look := d.looks
	d.w.at(at, func() {
		if d.looks == look {
			d.dispatch()
		}
	})
}

// dispatch is one look of dispatcher.run.
func (d *simDispatcher) dispatch() {
	w := d.w
	began := w.now
	d.next = began + dispatcherRest
	if end := w.standing(); end > 0 {
		d.look(end)
		return
	}
	d.busy = true
	w.call(w.redis, func() {
		if w.twins {
			w.list.duty.id = d.id
		}
		look := w.list.look(d.id)
		rest := look.Rest
		var plans []waitlist.Plan
		for _, due := range look.Due {
			p, err := plan(due, look.Now, 75*time.Millisecond)
			if err != nil {
				panic(err)
			}
			plans = append(plans, p)
			if p.Next > 0 {
				rest = min(rest, p.Next)
			}
		}
		promote := func() {
			if look.OnDuty {
				d.promote(look, plans)
			}
			d.busy = false
			d.look(max(min(d.next, w.now+rest), began+dispatcherPause))
		}
		if look.OnDuty && w.in(w.freeze) && (w.frozen == nil || w.frozen == d) { // another dispatcher takes the duty
			w.frozen = d
			w.at(seconds(w.freeze[1]), promote)
			return
		}
		w.call(w.redis, promote)
	})
}

// standing returns when the dispatchers run again, or zero if they run.
func (w *world) standing() time.Duration {
	switch {
	case w.in(w.outage):
		return seconds(w.outage[1])
	case w.in(w.crash):
		return seconds(w.crash[1])
	}
	return 0
}

func (d *simDispatcher) promote(look waitlist.Look, plans []waitlist.Plan) {
	w := d.w
	if look.TookOver {
		d.followed = nil
		for _, name := range w.list.names() {
			for _, p := range w.list.bucket(name).promoted {
				d.woken(p.task, 0)
			}
		}
	}
	if w.twins {
		w.list.duty.id = d.id
	}
	promoted, onDuty := w.list.promote(d.id, plans, taskOf)
	if !onDuty {
		return
	}
	urgent := func(task int) bool { return w.list.records[task].entry.Urgent }
	slices.SortStableFunc(promoted, func(a, b int) int {
		switch {
		case urgent(a) == urgent(b):
			return 0
		case urgent(a):
			return -1
		}
		return 1
	})
	for _, task := range promoted {
		d.woken(task, 0)
	}
	d.refresh()
}

func taskOf(t waitlist.Task) int {
	task, err := strconv.Atoi(t.ID)
	if err != nil {
		panic(err)
	}
	return task
}

// woken delivers a promoted task through asynq, like dispatcher.woke.
func (d *simDispatcher) woken(task, tries int) {
	w := d.w
	r := w.list.records[task]
	if r == nil {
		return
	}
	switch w.wakeTask(task, r.entry.Urgent) {
	case asynqdb.Active:
		if tries < wakeTries {
			w.after(min(wakePause<<tries, wakePauseMost), func() { d.woken(task, tries+1) })
		} else {
			w.list.park(task)
		}
	case asynqdb.Unknown:
		w.list.leave(task)
	case asynqdb.Woken, asynqdb.Away:
	}
}

// refresh applies changed limits to the buckets.
func (d *simDispatcher) refresh() {
	w := d.w
	limits := w.limiter.Limits()
	if d.followed == limits || w.in(w.down) {
		return
	}
	d.followed = limits
	for _, name := range w.list.names() {
		c := reservations.ParseBucket(name)
		o := w.apply(c, bucket.Request{Op: bucket.OpRefresh})
		w.workers[0].answer(name, o.Bucket, true)
	}
}
