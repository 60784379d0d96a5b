package reservations_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// trackOf names what the judge keeps apart: a meter of a bucket, of one shard or of all together (0).
type trackOf struct {
	limit, key, meter string
	shard             int
}

// track is what the judge knows of one meter: what started and what came back, and what was allowed meanwhile. It knows nothing of ledgers.
type track struct {
	parts   float64                    // it may have so much of the limit: 1, or the number of shards
	limits  []reservations.Meter       // of both limiters
	asked   map[int]reservations.Meter // by shard: with what it was asked last. That is in force until it is asked again
	still   []still                    // what was in force during a block is, for what is owed, until that ends
	filled  float64                    // what the most generous of them has brought so far
	largest float64
	changed bool    // the capacity was not always the same
	cap     float64 // the highest since the last event
	events  []event
}

// event is a start (its tokens are positive), what was given back (negative), or a change (none).
type event struct {
	at      float64 // in seconds that passed; of a start, after its hold
	tokens  float64
	above   float64 // how much of them is above the capacity in force
	start   bool
	filled  float64 // by then, by the most generous limit in force
	least   float64 // the same, with what the least generous brings during the hold
	cap     float64
	late    bool    // a window ends within a hold
	others  int     // so many other limits were in force
	holding float64 // what comes back in a hold
}

type still struct {
	meter reservations.Meter
	until float64
}

func (tr *track) inForce() []reservations.Meter {
	all := slices.Clone(tr.limits)
	for _, s := range tr.still {
		all = append(all, s.meter)
	}
	for _, m := range tr.asked {
		all = append(all, m)
	}
	return all
}

// most is the most that comes back in d after a moment by any of the limits in force.
func (tr *track) most(from time.Time, d time.Duration) float64 {
	most := 0.
	for _, m := range tr.inForce() {
		most = max(most, cameBack(m, from, d)/tr.parts)
	}
	return most
}

// cameBack is what a meter brings in d after a moment, by its definition.
func cameBack(m reservations.Meter, from time.Time, d time.Duration) float64 {
	if m.Kind != reservations.KindWindow {
		return m.Rate * d.Seconds() / m.Period.Seconds()
	}
	number := func(at time.Time) int64 {
		return int64((time.Duration(at.UnixNano()) + m.Period - m.Offset()) / m.Period)
	}
	return m.Rate * float64(number(from.Add(d))-number(from))
}

func (tr *track) fill(from time.Time, d time.Duration) { tr.filled += tr.most(from, d) }

func (tr *track) raise() {
	for _, m := range tr.inForce() {
		if tr.cap != 0 && tr.cap != m.Cap()/tr.parts {
			tr.changed = true
		}
		tr.cap = max(tr.cap, m.Cap()/tr.parts)
	}
}

// add puts an event where it belongs in time, and returns where that is.
func (tr *track) add(e event, at time.Time, hold time.Duration) int {
	tr.raise()
	e.at += hold.Seconds()
	e.cap, e.filled = tr.cap, tr.filled+tr.most(at, hold+time.Microsecond)
	e.least = e.filled
	for _, m := range tr.inForce() {
		e.least = min(e.least, tr.filled+cameBack(m, at, hold+time.Microsecond)/tr.parts)
	}
	e.late = tr.hasWindows() && tr.most(at, reservations.Hold+time.Microsecond) > 0
	e.others = tr.different() - 1
	for _, m := range tr.inForce() {
		if m.Kind != reservations.KindWindow {
			e.holding = max(e.holding, cameBack(m, at, reservations.Hold)/tr.parts)
		}
	}
	tr.largest = max(tr.largest, e.tokens)
	tr.cap = 0
	tr.raise()
	i := len(tr.events)
	for i > 0 && tr.events[i-1].at > e.at {
		i--
	}
	tr.events = slices.Insert(tr.events, i, e)
	return i
}

// different is how many definitions are in force.
func (tr *track) different() int {
	seen := map[reservations.Filling]bool{}
	for _, m := range tr.inForce() {
		seen[m.Filling()] = true
	}
	return len(seen)
}

func (tr *track) hasWindows() bool {
	return slices.ContainsFunc(tr.inForce(), func(m reservations.Meter) bool { return m.Kind == reservations.KindWindow })
}

// windows holds every window from one start to another, with the event number i in it, against what was allowed.
func (tr *track) windows(i int) string {
	for last := i; last < len(tr.events); last++ {
		if !tr.events[last].start {
			continue
		}
		sum, above, limit, filled, least := 0., 0., 0., 0., math.Inf(1)
		for first := last; first >= 0; first-- {
			e := tr.events[first]
			sum, above, limit, filled = sum+e.tokens, above+e.above, max(limit, e.cap), max(filled, e.filled)
			least = min(least, e.least) // of two at one moment, one may hold for the next window
			if first > i || !e.start {
				continue
			}
			allowed := limit + filled - least + tr.slack(first, last) + e.holding*1e-7 // a hold is rounded to nanoseconds
			if sum-above > allowed*(1+1e-9)+1e-6 {
				return fmt.Sprintf("%v (%v of it above the capacity) in %v s from %v on, allowed are %v", sum, above, tr.events[last].at-e.at, e.at, allowed)
			}
			if owing := allowed + max(0, tr.largest-limit); !tr.changed && sum > owing*(1+1e-9)+1e-6 {
				return fmt.Sprintf("%v in %v s from %v on, allowed are %v, with the largest", sum, tr.events[last].at-e.at, e.at, owing)
			}
		}
	}
	return ""
}

// slack is what may start beyond that because something was given back, or a limit was changed, while a task held: what comes back in a hold; of a
// window, what was given back in the last 250 ms before its end, and where limits of different rates were asked there, what each one lets hold for the next.
func (tr *track) slack(first, last int) float64 {
	hold, late, ends := 0., 0., map[float64]float64{}
	for i := last; i >= 0 && tr.events[i].at >= tr.events[first].at-reservations.Hold.Seconds(); i-- {
		e := tr.events[i]
		if e.late {
			ends[e.filled] = max(ends[e.filled], e.cap*float64(e.others))
		}
		if e.start && e.others == 0 {
			continue
		}
		hold = max(hold, e.holding)
		switch {
		case e.start:
		case i < first: // the first one held when that came back
			late -= e.tokens
		case e.late && e.tokens == 0:
			late += e.cap
		case e.late:
			late -= e.tokens
		}
	}
	for _, more := range ends {
		late += more
	}
	return hold + late
}

// track is found or begun. It requires that mu is held, as all below.
func (h *history) track(of trackOf, parts int) *track {
	tr := h.tracks[of]
	if tr == nil {
		tr = &track{parts: 1, asked: map[int]reservations.Meter{}}
		if of.shard > 0 {
			tr.parts = float64(parts)
		}
		h.tracks[of] = tr
		h.knows(of, tr)
	}
	return tr
}

// knows gives a track what the limiters go by.
func (h *history) knows(of trackOf, tr *track) {
	tr.limits = nil
	for _, limiter := range h.limiters {
		if l, err := limiter.Limits().For(of.limit, of.key); err == nil {
			l = asStored(l, of.key)
			for _, m := range l.Meters {
				if m.Name == of.meter {
					tr.limits = append(tr.limits, m)
				}
			}
		}
	}
	tr.raise()
}

// revised tells the tracks that limits are others now.
func (h *history) revised() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, tr := range h.tracks {
		h.knows(of, tr)
		tr.add(event{at: h.passed}, h.clock, 0)
	}
}

// asStored is the limit with the starts of its windows, where they are derived from the bucket's name: as a store sees them.
func asStored(l reservations.Limit, key string) reservations.Limit {
	l.Meters = slices.Clone(l.Meters)
	for k, m := range l.Meters {
		if m.Spread {
			one := reservations.Limit{Name: l.Name, Meters: []reservations.Meter{m}}
			store := memstore.New(func() time.Time { return virtualStart })
			limiter, err := reservations.New(store, []reservations.Limit{one}, reservations.Config{})
			if err != nil {
				panic(err)
			}
			_, _ = limiter.Check(context.Background(), reservations.Charge{Limit: l.Name, Key: key})
			b, _, _ := store.Bucket(context.Background(), l.Name, key)
			l.Meters[k].Start, l.Meters[k].Spread = b.Meters[0].Filling.Offset, false
		}
	}
	return l
}

func (h *history) wrong(format string, args ...any) {
	if h.fault == "" {
		h.fault = fmt.Sprintf(format, args...)
	}
}

// Fatalf is for wellFormed.
func (h *history) Fatalf(format string, args ...any) { h.wrong(format, args...) }

// judge looks at what a call did to a bucket.
func (h *history) judge(l reservations.Limit, key string, requests []reservations.Request, outcomes []reservations.Outcome, before, after reservations.Bucket) {
	name, number, _ := strings.Cut(l.Name, "#")
	shard := 0
	_, _ = fmt.Sscan(number, &shard)
	whole, err := h.limiters[h.asking].Limits().For(name, key)
	if err != nil {
		h.wrong("asked for limit %q, which is not there", name)
		return
	}
	whole = asStored(whole, key)
	accrued, _ := reservations.Step(before, l, h.clock, reservations.Request{Op: check, Tokens: make([]float64, len(l.Meters))})
	wellFormed(h, l, after)
	for k, m := range l.Meters {
		tracks := []*track{h.track(trackOf{name, key, m.Name, 0}, whole.Shards)}
		if shard > 0 {
			tracks = append(tracks, h.track(trackOf{name, key, m.Name, shard}, whole.Shards))
		}
		for _, tr := range tracks {
			tr.still = slices.DeleteFunc(tr.still, func(s still) bool { return s.until < h.passed })
			if until := h.blocked[reservations.BucketName(l.Name, key)]; until > h.passed {
				tr.still = append(tr.still, still{whole.Meters[k], until})
			}
			tr.asked[shard] = whole.Meters[k]
			tr.raise()
		}
		was, is := accrued.Meters[k].Ledgers[reservations.LedgerUse], after.Meters[k].Ledgers[reservations.LedgerUse]
		h.rose(requests[0], m, was, is)
		if back := is - was; back > 1e-9 {
			h.event(tracks, event{tokens: -back}, after.At, 0)
		}
	}
	for i, r := range requests {
		h.answered(trackOf{limit: name, key: key, shard: shard}, l, whole, r, outcomes[i], accrued, after)
	}
	if requests[0].Op == block {
		bucket := reservations.BucketName(l.Name, key)
		h.blocked[bucket] = max(h.blocked[bucket], h.passed+requests[0].For.Seconds())
	}
}

// rose: what a call gives back is what its caller may give back, and nothing else raises what may start.
func (h *history) rose(r reservations.Request, m reservations.Meter, was, is float64) {
	may := 0.
	if r.Op == settle || r.Op == reservations.OpYield {
		may = max(0, h.back[m.Name])
	}
	if is > was+may+1e-6 {
		h.wrong("%s minted: use of %s went from %v to %v, %v may come back", r.Op, m.Name, was, is, may)
	}
	if is < was-1e-6 && (r.Op == check || r.Dry || r.Op == reserve || r.Op == release || r.Op == reservations.OpYield || r.Op == reservations.OpAdvance) {
		h.wrong("%s took: use of %s went from %v to %v", r.Op, m.Name, was, is)
	}
}

// answered holds an answer against the bucket as it was.
func (h *history) answered(of trackOf, l, whole reservations.Limit, r reservations.Request, o reservations.Outcome, accrued, after reservations.Bucket) {
	if r.Dry || r.Op == check || o.State == refused {
		if !slices.Equal(accrued.Meters, after.Meters) || accrued.Shift != after.Shift || accrued.Blocked != after.Blocked || accrued.Carry != after.Carry {
			h.wrong("%s (dry %v) was answered %s and changed %+v to %+v", r.Op, r.Dry, o.State, accrued, after)
		}
		return
	}
	if r.Op == reservations.OpAdvance && (!slices.Equal(accrued.Meters, after.Meters) || after.Shift < accrued.Shift) {
		h.wrong("moving the line on changed %+v to %+v", accrued, after)
	}
	if !o.Started() {
		return
	}
	at := h.passed + o.Hold.Seconds()
	if until := h.blocked[reservations.BucketName(l.Name, of.key)]; at < until-1e-6 {
		h.wrong("%s starts at %v s, blocked until %v s", r.Op, at, until)
	}
	if o.Hold < 0 || o.Hold > reservations.Hold || r.Op == take && o.Hold > 0 {
		h.wrong("%s holds for %v", r.Op, o.Hold)
	}
	for k, m := range l.Meters {
		was, is, n := accrued.Meters[k].Ledgers[reservations.LedgerUse], after.Meters[k].Ledgers[reservations.LedgerUse], r.Tokens[k]
		if tiny := 1e-9*math.Abs(was) + 1e-6; was+cameBack(m, o.At, o.Hold+time.Microsecond) < min(n, m.Cap())-tiny-m.RatePerSecond()*1e-5 || is > was-n+tiny {
			h.wrong("%s of %v of %s starts with %v there, %v after", r.Op, n, m.Name, was, is)
		}
		of.meter = m.Name
		tracks := []*track{h.track(trackOf{of.limit, of.key, m.Name, 0}, whole.Shards)}
		if of.shard > 0 {
			tracks = append(tracks, h.track(of, whole.Shards))
		}
		for _, tr := range tracks { // several shards may owe at once what is above a capacity that was lowered
			tr.changed = tr.changed || whole.Shards > 1 && n > m.Cap()
		}
		h.event(tracks, event{tokens: n, above: max(0, n-m.Cap()), start: true}, o.At, o.Hold)
	}
}

// event adds to all tracks, and looks at their windows where something started.
func (h *history) event(tracks []*track, e event, at time.Time, hold time.Duration) {
	e.at = h.passed
	for _, tr := range tracks {
		i := tr.add(e, at, hold)
		if !e.start {
			continue
		}
		if fault := tr.windows(i); fault != "" {
			for of, other := range h.tracks {
				if other == tr {
					h.wrong("%+v: %s; events %+v", of, fault, tr.events)
				}
			}
		}
	}
}

// forget begins the tracks of a bucket anew: it was reset.
func (h *history) forget(limit, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, tr := range h.tracks {
		if of.limit == limit && of.key == key {
			tr.events = nil
		}
	}
	for bucket := range h.blocked {
		if c := reservations.ParseBucket(bucket); c.Limit == limit && c.Key == key {
			delete(h.blocked, bucket)
		}
	}
}
