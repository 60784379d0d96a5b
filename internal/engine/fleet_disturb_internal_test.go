package engine

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

func (*world) ctx() context.Context { return context.Background() }

// disturb plans the external events of the fleet.
func (w *world) disturb() {
	if w.outage[1] > 0 {
		w.at(seconds(w.outage[1]), w.pump)
	}
	if w.block[1] > 0 {
		w.at(seconds(w.block[0]), func() {
			for name := range w.judge.buckets {
				c := reservations.ParseBucket(name)
				o := w.apply(c, bucket.Request{Op: bucket.OpBlock, For: seconds(w.block[1] - w.block[0])})
				w.workers[0].answer(name, o.Bucket, true)
			}
		})
	}
	if w.change[1] > 0 {
		w.at(seconds(w.change[0]), w.changeRates)
	}
	for _, at := range w.kill {
		w.at(seconds(at), w.killWorkers)
	}
	w.repeat(w.other, w.takeOne)
	w.repeat(w.stray, w.strayOne)
}

// repeat calls do rate times a second.
func (w *world) repeat(rate float64, do func()) {
	if rate == 0 {
		return
	}
	w.after(seconds(1/rate), func() {
		do()
		w.repeat(rate, do)
	})
}

// takeOne takes a token of each meter without a place, if there is room.
func (w *world) takeOne() {
	c := w.charges(0)[0]
	c.Tokens = reservations.Tokens{}
	for _, m := range w.limits[0].Meters {
		c.Tokens[m.Name] = 1
	}
	o := w.apply(c, bucket.Request{Op: bucket.OpStart})
	if o.Started() {
		w.judge.other(c, w.now+o.Hold)
	} else if o.State == reservations.StateReserved {
		o = w.apply(c, bucket.Request{Op: bucket.OpRelease})
	}
	w.workers[0].answer(c.Bucket(), o.Bucket, true)
}

// strayOne delivers a waiting task that was not promoted.
func (w *world) strayOne() {
	if len(w.away) > 2*w.tasks {
		w.away = slices.DeleteFunc(w.away, func(task int) bool { return w.all[task].state != stateAway })
	}
	for range 20 {
		if len(w.away) == 0 {
			return
		}
		i := w.random.IntN(len(w.away))
		if task := w.away[i]; w.all[task].state == stateAway {
			w.unasked(task)
			return
		}
		w.away[i] = w.away[len(w.away)-1]
		w.away = w.away[:len(w.away)-1]
	}
}

func (w *world) changeRates() {
	var limits []reservations.Limit
	for _, l := range w.limits {
		l.Meters = slices.Clone(l.Meters)
		for k := range l.Meters {
			l.Meters[k].Capacity = l.Meters[k].Cap()
			l.Meters[k].Rate *= w.change[1]
		}
		limits = append(limits, l)
	}
	if err := w.limiter.SetLimits(limits); err != nil {
		panic(err)
	}
	w.judge.changed(limits)
}

// killWorkers kills all workers. Their reports are lost, and asynq puts their tasks back after a while.
func (w *world) killWorkers() {
	for _, p := range w.workers {
		clear(p.answers)
		p.begun = nil
		p.faults = new(faults)
	}
	for task, t := range w.all {
		if t.state != stateActive {
			continue
		}
		t.run++
		t.killed = true
		w.free++
		w.after(30*time.Second+time.Duration(w.random.Int64N(int64(time.Minute))), func() {
			t.state = stateAway
			w.unasked(task)
		})
	}
	w.pump()
}
