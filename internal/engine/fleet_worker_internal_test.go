package engine

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// simProcess is a worker, with its unsent reports.
type simProcess struct {
	w        *world
	id       int
	answers  map[string]reported
	begun    []int
	flushing bool
	faults   *faults
}

// pump delivers pending tasks to free handlers.
func (w *world) pump() {
	for w.free > 0 && len(w.promoted)+len(w.fresh) > 0 && !w.in(w.outage) {
		from := &w.fresh
		if len(w.promoted) > 0 {
			from = &w.promoted
		}
		task := (*from)[0]
		*from = (*from)[1:]
		if w.all[task].state != statePending {
			continue
		}
		w.deliver(task)
	}
}

// simDelivery is one delivery of a task, like worker.gate.
type simDelivery struct {
	w     *world
	p     *simProcess
	task  int
	run   int
	turn  Turn
	asked int // the number of granted charges
	ready time.Duration
	out   []reservations.Outcome
}

// deliver begins a delivery.
func (w *world) deliver(task int) {
	t := w.all[task]
	t.state, t.run = stateActive, t.run+1
	t.deliveries++
	t.net++
	w.free--
	d := &simDelivery{w: w, p: w.workers[w.random.IntN(len(w.workers))], task: task, run: t.run}
	w.call(w.redis, d.live(d.arrive))
}

// live returns a function that calls do, unless the delivery was cut off meanwhile.
func (d *simDelivery) live(do func()) func() {
	return func() {
		if d.w.all[d.task].run == d.run && d.w.all[d.task].state == stateActive {
			do()
		}
	}
}

// arrive reads the tags and reservations of the task.
func (d *simDelivery) arrive() {
	w := d.w
	if w.list.records[d.task] != nil && w.forget > 0 && w.random.Float64() < w.forget {
		w.list.leave(d.task)
	}
	d.turn = Turn{Charges: slices.Clone(w.all[d.task].charges)}
	var buckets []string
	for i := range d.turn.Charges {
		c := &d.turn.Charges[i]
		*c = w.limiter.Choose(*c)
		buckets = append(buckets, c.Bucket())
	}
	d.turn.fill(w.list.arrive(d.task, buckets))
	if d.turn.State == waitlist.StateWaiting {
		d.putBack(d.turn.info.left(simBase.Add(w.now)))
		return
	}
	d.ask()
}

// ask asks the next bucket, like gate.ask.
func (d *simDelivery) ask() {
	w := d.w
	c := d.turn.Charges[d.asked]
	if d.asked == 0 { // like claims.admit
		if i := slices.IndexFunc(d.turn.Charges, d.behind); i >= 0 {
			c = d.turn.Charges[i]
		}
	}
	held := d.turn.Holds(c)
	r := bucket.Request{Op: bucket.OpStart, Urgent: c.Urgent}
	switch {
	case held != "":
		r.Promoted, r.Reserved = true, held == reservations.StateReserved
	case d.behind(c):
		r.Op = bucket.OpReserve
	}
	w.call(w.fleet.store/2, d.live(func() {
		lost := w.lose > 0 && w.random.Float64() < w.lose
		if w.in(w.down) {
			d.unavailable(c)
			return
		}
		o := w.apply(c, r)
		w.call(w.fleet.store/2, d.live(func() {
			if lost {
				d.unavailable(c)
				return
			}
			d.answered(c, o)
		}))
	}))
}

// behind returns whether the task must wait for the bucket without asking for a start.
func (d *simDelivery) behind(c reservations.Charge) bool {
	limit, err := d.w.limiter.LimitFor(context.Background(), c)
	if err != nil {
		panic(err)
	}
	return d.turn.Behind(c) && (!c.Urgent || !limit.Rules().HasHeadroom())
}

// apply sends a request to the store.
func (w *world) apply(c reservations.Charge, r bucket.Request) reservations.Outcome {
	limit, err := w.limiter.LimitFor(w.ctx(), c)
	if err != nil {
		panic(err)
	}
	if r.Tokens == nil && r.Op != bucket.OpBlock && r.Op != bucket.OpRefresh {
		r.Tokens = limit.Rules().Vector(c.Tokens)
	}
	all, err := w.store.Apply(w.ctx(), limit.Rules(), c.Key, []bucket.Request{r})
	if err != nil {
		panic(err)
	}
	a := all[0]
	return reservations.Outcome{
		State: a.State, Charge: c, Hold: a.Hold, RetryAt: a.RetryAt, At: a.At, Bucket: a.Bucket,
	}
}

// answered handles the answer of a bucket.
func (d *simDelivery) answered(c reservations.Charge, o reservations.Outcome) {
	w := d.w
	if d.p.faults.over(c.Bucket()) {
		w.call(w.redis, w.list.recover)
	}
	if !o.Started() {
		d.giveBack()
		d.wait(c, o)
		return
	}
	d.out = append(d.out, o)
	d.asked++
	d.ready = max(d.ready, w.now+o.Hold)
	if d.asked < len(d.turn.Charges) {
		w.at(d.ready, d.live(d.ask))
		return
	}
	w.at(d.ready, d.live(d.start))
}

// start runs the handler.
func (d *simDelivery) start() {
	w := d.w
	t := w.all[d.task]
	t.started = w.now
	w.judge.start(d.task, w.now)
	for i, c := range d.turn.Charges {
		if d.turn.State != waitlist.StateNew || d.turn.others(c.Bucket()) {
			d.p.answer(c.Bucket(), d.out[i].Bucket, false)
		}
	}
	if d.turn.State != waitlist.StateNew {
		d.p.begun = append(d.p.begun, d.task)
		d.p.report()
	}
	w.after(seconds(w.run), d.live(func() {
		t.state = stateDone
		w.done++
		w.free++
		for _, c := range d.turn.Charges {
			d.settle(c)
		}
		w.pump()
	}))
}

// settle corrects the charge to the used tokens.
func (d *simDelivery) settle(c reservations.Charge) {
	w := d.w
	limit, err := w.limiter.LimitFor(w.ctx(), c)
	if err != nil {
		panic(err)
	}
	back, some := limit.Rules().Vector(c.Tokens), false
	for k := range back {
		back[k] *= 1 - w.used(d.task, len(back), k)
		some = some || back[k] != 0
	}
	if !some {
		return
	}
	w.judge.settle(d.task, c, w.now)
	w.call(w.fleet.store, func() {
		o := w.apply(c, bucket.Request{Op: bucket.OpSettle, Tokens: back})
		d.p.answer(c.Bucket(), o.Bucket, true)
	})
}

// giveBack releases the grants of other buckets.
func (d *simDelivery) giveBack() {
	w := d.w
	for i := range d.asked {
		c := d.turn.Charges[i]
		held := d.turn.Holds(c)
		w.call(w.fleet.store, func() {
			o := w.apply(c, bucket.Request{Op: bucket.OpSettle, Reserved: held == reservations.StateReserved})
			d.p.answer(c.Bucket(), o.Bucket, true)
		})
	}
}

// wait lets the task wait for the bucket that refused it, like Engine.Wait.
func (d *simDelivery) wait(c reservations.Charge, o reservations.Outcome) {
	w := d.w
	e := w.sched.entry(context.Background(), w.all[d.task].name, d.turn, c)
	e.Reserved = e.Reserved || o.State == reservations.StateReserved
	d.p.joins(c.Bucket(), o.Bucket)
	d.join(e, d.turn.info, o.Wait(), func(joined reservations.Tokens) time.Duration { return expectedWait(o, joined) })
}

// unavailable lets the task wait for its store, like Engine.Wait.
func (d *simDelivery) unavailable(c reservations.Charge) {
	w := d.w
	d.giveBack()
	info := d.turn.info
	info.Why = WhyStore
	d.p.faults.note(c.Bucket(), fault{cause: reservations.ErrUnavailable})
	pause := w.list.fail(c.Bucket(), w.random.Float64())
	d.join(w.sched.entry(context.Background(), w.all[d.task].name, d.turn, c), info, pause, nil)
}

// join is like Engine.join. Expected, if not nil, computes the wait from the sum of the charges in the waitlist.
func (d *simDelivery) join(
	e waitlist.Entry, info WaitInfo, wait time.Duration, expected func(joined reservations.Tokens) time.Duration,
) {
	w := d.w
	now := simBase.Add(w.now)
	if info.Since == 0 {
		info.Since = now.UnixMilli()
	}
	info.Until = now.Add(wait).UnixMilli()
	d.p.flush()
	w.call(w.redis, d.live(func() {
		joined := w.list.join(d.task, e, info)
		if expected != nil {
			wait = expected(joined)
		}
		d.putBack(wait)
	}))
}

// putBack ends a delivery without a start. asynq keeps the task in its retry set.
func (d *simDelivery) putBack(wait time.Duration) {
	w := d.w
	w.after(seconds(w.deferring), d.live(func() {
		t := w.all[d.task]
		t.state = stateAway
		w.away = append(w.away, d.task)
		t.net++
		net := t.net
		w.after(netDelay(wait, w.random.Float64()), func() {
			if t.state == stateAway && t.net == net {
				w.unasked(d.task)
			}
		})
		w.free++
		w.pump()
	}))
}

// unasked delivers a waiting task that was not promoted.
func (w *world) unasked(task int) {
	if t := w.all[task]; t.state == stateAway {
		t.state = statePending
		w.fresh = append(w.fresh, task)
		w.pump()
	}
}

// wakeTask is asynqdb.Wake for one task.
func (w *world) wakeTask(task int, urgent bool) asynqdb.Wake {
	t := w.all[task]
	switch t.state {
	case stateActive:
		return asynqdb.Active
	case statePending:
		return asynqdb.Away
	case stateDone, stateNew:
		return asynqdb.Unknown
	case stateAway:
	}
	t.state = statePending
	run := t.run
	at := w.now + seconds(w.fleet.deliver*w.random.Float64())
	if poll := seconds(w.poll); poll > 0 {
		at += poll - at%poll
	}
	w.at(at, func() {
		if t.run != run || t.state != statePending {
			return
		}
		if urgent {
			w.promoted = slices.Insert(w.promoted, 0, task)
		} else {
			w.promoted = append(w.promoted, task)
		}
		w.pump()
	})
	return asynqdb.Woken
}

// answer is like reporter.answer.
func (p *simProcess) answer(bucket string, b bucket.Bucket, sooner bool) {
	p.add(bucket, reported{bucket: b, came: simBase.Add(p.w.now), sooner: sooner})
}

// joins is like reporter.joins.
func (p *simProcess) joins(bucket string, b bucket.Bucket) {
	p.add(bucket, reported{bucket: b, came: simBase.Add(p.w.now), joins: true})
}

func (p *simProcess) add(bucket string, a reported) {
	p.answers[bucket] = p.answers[bucket].with(a)
	p.report()
}

// report plans a flush.
func (p *simProcess) report() {
	if p.flushing {
		return
	}
	p.flushing = true
	p.w.after(seconds(p.w.gather), func() {
		p.flushing = false
		p.flush()
	})
}

// flush is like reporter.flush.
func (p *simProcess) flush() {
	w := p.w
	var answers []simAnswer
	for bucket, a := range p.answers {
		state, err := json.Marshal(a.bucket)
		if err != nil {
			panic(err)
		}
		answers = append(answers, simAnswer{
			bucket: bucket, generation: a.bucket.Generation, version: a.bucket.Version, state: state, sooner: a.sooner,
			joins: a.joins,
			store: a.bucket.At.Sub(simBase) + simBase.Add(w.now).Sub(a.came),
		})
	}
	begun := p.begun
	clear(p.answers)
	p.begun = nil
	if len(answers)+len(begun) == 0 || w.lose > 0 && w.random.Float64() < w.lose {
		return
	}
	w.call(w.redis, func() { w.list.report(answers, begun) })
}
