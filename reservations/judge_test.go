package reservations_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// judge holds the starts of one meter against its limits. It knows starts, what was given back and taken, and the
// limits in force, and nothing of balances.
type judge struct {
	force  []bucket.Meter // the limits in force
	last   bucket.Meter   // the one that was asked for last, where it is kept
	filled float64        // refilled so far: by the most generous of them
	events []event        // the last ones, by time
	count  int            // of all
}

// event is a start, or tokens that were given back (negative) or taken (positive).
type event struct {
	at       float64 // in seconds that passed; of a start, after its hold
	number   int     // in the order of the requests
	tokens   float64
	counts   float64 // of a start: at most the capacity, the rest is owed
	start    bool
	filled   float64 // by then, at most
	before   float64 // by then, at least: times are rounded
	capacity float64 // the largest in force
	slack    float64 // what comes back in the nanoseconds to which times are rounded
	changing float64 // where different limits are in force: what they bring in a hold
}

// brings is what a meter brings in d after a moment, by its definition.
func brings(m bucket.Meter, from time.Time, d time.Duration) float64 {
	f := m.Filling
	if f.Period == 0 {
		return f.Rate * d.Seconds()
	}
	number := func(at time.Time) int64 {
		return int64((time.Duration(at.UnixNano()) + f.Period - f.Offset) / f.Period)
	}
	return f.Rate * float64(number(from.Add(d))-number(from))
}

// most is what the most generous limit in force brings.
func (j *judge) most(from time.Time, d time.Duration) float64 {
	most := 0.
	for _, m := range j.force {
		most = max(most, brings(m, from, d))
	}
	return most
}

// judged is how many events a judge looks at.
const judged = 64

// pass fills while time passes from a moment.
func (j *judge) pass(from time.Time, d time.Duration) { j.filled += j.most(from, d) }

// rounding is how late or early a start may be: until rounds to nanoseconds, and Allow does not hold for ten of them.
const rounding = 20 * time.Nanosecond

// begins adds a start of tokens, asked at passed seconds when the bucket's clock was at, and says what is wrong.
// Capacity is that of the asking limit.
func (j *judge) begins(passed float64, at time.Time, hold time.Duration, tokens, capacity float64) string {
	e := event{at: passed + hold.Seconds(), tokens: tokens, counts: min(tokens, capacity), start: true}
	e.filled, e.before = j.filled+j.most(at, hold+rounding), j.filled+j.most(at, max(0, hold-rounding))
	for k, m := range j.force {
		if m.Filling != j.force[0].Filling {
			for _, m := range j.force[:k+1] {
				e.changing = e.changing + brings(m, at, bucket.Hold+rounding)
			}
		}
	}
	j.add(e)
	return j.fault()
}

// corrected adds what was given back (negative) or taken.
func (j *judge) corrected(passed, tokens float64) {
	if tokens != 0 {
		j.add(event{at: passed, tokens: tokens, filled: j.filled, before: j.filled})
	}
}

func (j *judge) add(e event) {
	j.count++
	e.number = j.count
	for _, m := range j.force {
		e.capacity = max(e.capacity, m.Filling.Capacity)
		if m.Filling.Period == 0 {
			e.slack = max(e.slack, brings(m, time.Time{}, rounding))
		}
	}
	i := len(j.events)
	for i > 0 && j.events[i-1].at > e.at {
		i--
	}
	j.events = slices.Insert(j.events, i, e)
	if len(j.events) > judged {
		j.events = slices.Delete(j.events, 0, 1)
	}
}

// cancelled removes the start of a number: the task did not begin.
func (j *judge) cancelled(number int) {
	j.events = slices.DeleteFunc(j.events, func(e event) bool { return e.number == number })
}

// fault holds every window from one start to another against what was allowed: the capacity, what came back and was
// given back meanwhile, and where limits change what they bring in a hold. Of the start that was asked for last, what
// it owes does not count, nor does what was taken afterwards.
func (j *judge) fault() string {
	for first, f := range j.events {
		if !f.start {
			continue
		}
		sum, capacity, changing, slack := 0., 0., 0., 2*f.slack+1e-6
		before, filled, latest, taken := j.before(f), f.filled, f, []event(nil)
		for _, l := range j.events[first:] {
			capacity, filled, changing = max(capacity, l.capacity), max(filled, l.filled), max(changing, l.changing)
			if sum += l.tokens; !l.start {
				if l.tokens > 0 {
					taken = append(taken, l)
				}
				continue
			}
			if l.number > latest.number {
				latest = l
			}
			got := sum - (latest.tokens - latest.counts)
			for _, e := range taken {
				if e.number > latest.number {
					got -= e.tokens
				}
			}
			if allowed := capacity + filled - before + slack + changing; got > allowed*(1+1e-9) {
				return fmt.Sprintf("%v started in %v s from second %v on, %v are allowed: %+v", got, l.at-f.at, f.at,
					allowed, j.events)
			}
		}
	}
	return ""
}

// before is what had come back when a window begins with f. Of starts at the same moment the least counts.
func (j *judge) before(f event) float64 {
	least := f.before
	for _, e := range j.events {
		if e.at >= f.at {
			least = min(least, e.before)
		}
	}
	return least
}
