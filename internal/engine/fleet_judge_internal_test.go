package engine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// judge measures starts by the clock of the simulation. It shares nothing with the rules of the buckets.
type judge struct {
	w       *world
	buckets map[string]*judged
	starts  []simStart
}

type simStart struct {
	at   time.Duration
	task int
}

// judged is the starts of a bucket.
type judged struct {
	limit   reservations.Limit // with the highest of its rates
	charges [][]amount         // by meter, in any order
	largest []float64          // single charge, by meter
}

type amount struct {
	at     time.Duration
	tokens float64
}

// fleetReport is the result of a fleet.
type fleetReport struct {
	done       int
	took, best float64 // seconds until the last start, and the least possible.
	util       float64
	deliveries float64    // per task, on average.
	most       int        // largest number of deliveries of one task.
	win        float64    // the fullest window, as a part of the limit.
	lost       float64    // most places lost, in percent of the tasks.
	starts     []simStart // in order, without tasks of killed workers.
	waits      func(func(task int) bool) (median, most float64)
}

func (r fleetReport) String() string {
	return fmt.Sprintf("done %d, took %.1f, best %.1f, util %.3f, deliveries %.2f, most %d, win %.4f, lost %.2f",
		r.done, r.took, r.best, r.util, r.deliveries, r.most, r.win, r.lost)
}

func newJudge(w *world) judge { return judge{w: w, buckets: map[string]*judged{}} }

func (j *judge) bucket(c reservations.Charge) *judged {
	name := bucket.Name(c.Limit, c.Key) // all shards together
	b := j.buckets[name]
	if b == nil {
		limit, err := j.w.limiter.Limits().For(c.Limit, c.Key)
		if err != nil {
			panic(err)
		}
		n := len(limit.Meters)
		b = &judged{limit: limit, charges: make([][]amount, n), largest: make([]float64, n)}
		j.buckets[name] = b
	}
	return b
}

func (j *judge) start(task int, at time.Duration) {
	j.starts = append(j.starts, simStart{at, task})
	for _, c := range j.w.all[task].charges {
		j.other(c, at)
	}
}

// other counts a start outside of the fleet.
func (j *judge) other(c reservations.Charge, at time.Duration) {
	b := j.bucket(c)
	for k, m := range b.limit.Meters {
		n := c.Tokens[m.Name]
		b.charges[k] = append(b.charges[k], amount{at, n})
		b.largest[k] = max(b.largest[k], n)
	}
}

func (j *judge) settle(task int, c reservations.Charge, at time.Duration) {
	b := j.bucket(c)
	for k, m := range b.limit.Meters {
		n := c.Tokens[m.Name]
		b.charges[k] = append(b.charges[k], amount{at, n*j.w.used(task, len(b.limit.Meters), k) - n})
	}
}

// changed judges windows by the higher rate.
func (j *judge) changed(limits []reservations.Limit) {
	for _, b := range j.buckets {
		for _, l := range limits {
			if l.Name == b.limit.Name && l.Meters[0].Rate > b.limit.Meters[0].Rate {
				b.limit = l
			}
		}
	}
}

// fullest returns the fullest window of the bucket of 1, 10 or 60 s, as a part of the limit.
func (b *judged) fullest() (win float64) {
	for k, m := range b.limit.Meters {
		seen := b.charges[k]
		slices.SortStableFunc(seen, func(a, b amount) int { return int(a.at - b.at) })
		for _, length := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			first, sum, most := 0, 0., 0.
			for _, s := range seen {
				sum += s.tokens
				for s.at-seen[first].at > length {
					sum -= seen[first].tokens
					first++
				}
				most = max(most, sum)
			}
			win = max(win, most/(max(m.Cap(), b.largest[k])+comes(m, length)))
		}
	}
	return win
}

// report measures the fleet.
func (j *judge) report() fleetReport {
	w := j.w
	r := fleetReport{done: w.done, waits: j.waits}
	j.starts = slices.DeleteFunc(j.starts, func(s simStart) bool { return w.all[s.task].killed })
	for _, s := range j.starts {
		r.took = max(r.took, s.at.Seconds())
	}
	var deliveries int
	for _, t := range w.all {
		r.best = max(r.best, t.arrived.Seconds())
		deliveries += t.deliveries
		r.most = max(r.most, t.deliveries)
	}
	for _, b := range j.buckets {
		r.win = max(r.win, b.fullest())
		for k, m := range b.limit.Meters {
			sum := 0.
			for _, c := range b.charges[k] {
				sum += c.tokens
			}
			r.best = max(r.best, (sum-m.Cap())/w.rateOf(b.limit.Name, k))
		}
	}
	r.util = r.best / r.took
	r.deliveries = float64(deliveries) / float64(len(w.all))
	slices.SortFunc(j.starts, func(a, b simStart) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.task - b.task
	})
	r.starts = j.starts
	seen := make([]bool, len(w.all))
	position := 0
	for _, s := range j.starts {
		if seen[s.task] {
			continue
		}
		seen[s.task] = true
		r.lost = max(r.lost, 100*float64(position-s.task)/float64(len(w.all)))
		position++
	}
	return r
}

// rateOf returns the rate of a meter before it changed.
func (w *world) rateOf(limit string, meter int) float64 {
	for _, l := range w.limits {
		if l.Name == limit {
			return l.Rules().Meters[meter].RatePerSecond()
		}
	}
	return math.Inf(1)
}

// waits returns the median and the longest wait of some tasks.
func (j *judge) waits(of func(task int) bool) (median, most float64) {
	var all []float64
	for i, t := range j.w.all {
		if of(i) {
			all = append(all, (t.started - t.arrived).Seconds())
		}
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

// comes returns the refill within a window of that length.
func comes(m reservations.Meter, length time.Duration) float64 {
	if m.Kind == reservations.KindWindow {
		return m.Rate * math.Ceil(length.Seconds()/m.Period.Seconds())
	}
	rules := reservations.Limit{Meters: []reservations.Meter{m}}.Rules()
	return rules.Meters[0].RatePerSecond() * length.Seconds()
}
