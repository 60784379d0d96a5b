package reservations_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/reservations"
)

// bucketMachine drives one bucket in every way that a fleet may, right or wrong: on time, early, late, twice, having forgotten.
type bucketMachine struct {
	limit   reservations.Limit
	others  []reservations.Limit // that callers may have instead: only rates and capacities differ
	bucket  reservations.Bucket
	now     float64
	waiting []place
	running []counted // since when, and the charge
	counted []counted // by the time at which it counts
	largest []float64 // charge so far, by meter
	blocked float64   // until then
	late    []float64 // given back to a window while a task may hold for the next, by meter
}

type place struct {
	task   int // in the order of arrival
	state  reservations.State
	due    time.Time
	tokens []float64
	urgent bool
}

type counted struct {
	at     float64
	tokens []float64
}

func drawLimit(t *rapid.T, windows bool) reservations.Limit {
	var l reservations.Limit
	for k := range rapid.IntRange(1, 3).Draw(t, "meters") {
		rate := rapid.SampledFrom([]float64{.1, 1, 7, 100, 2500}).Draw(t, "rate")
		l.Meters = append(l.Meters, perSecond(fmt.Sprintf("m%d", k), rate,
			rate*rapid.SampledFrom([]float64{.1, 1, 3, 60}).Draw(t, "capacity"),
			rate*rapid.SampledFrom([]float64{0, .5, 5, 100, math.Inf(1)}).Draw(t, "max_reserved")))
		if m := &l.Meters[k]; windows && rapid.Bool().Draw(t, "window") {
			seconds := rapid.SampledFrom([]float64{1, 7, 60}).Draw(t, "period")
			m.Kind, m.Rate, m.Period = reservations.KindWindow, rate*seconds, time.Duration(seconds)*time.Second
			m.Start = rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, -time.Hour - time.Millisecond}).Draw(t, "start")
		}
	}
	if !slices.ContainsFunc(l.Meters, func(m reservations.Meter) bool { return m.Kind == reservations.KindWindow }) {
		l.OrdinaryShare = rapid.SampledFrom([]float64{0, .01, .5}).Draw(t, "ordinary_share")
		for k := range l.Meters {
			l.Meters[k].Headroom = l.Meters[k].Cap() * rapid.SampledFrom([]float64{0, .1, .5, .9}).Draw(t, "headroom")
		}
	}
	return l
}

func (m *bucketMachine) drawTokens(t *rapid.T) []float64 {
	n := make([]float64, len(m.limit.Meters))
	for k, meter := range m.limit.Meters {
		n[k] = min(meter.Largest(), meter.Cap()*rapid.SampledFrom([]float64{0, .01, .1, .5, 1, 1.5}).Draw(t, "charge"))
		if len(m.others) > 1 { // what was above a capacity that is then lowered is paid back to the lower one: promised is less
			for _, other := range m.others {
				n[k] = min(n[k], other.Meters[k].Cap())
			}
		}
		m.largest[k] = max(m.largest[k], n[k])
	}
	return n
}

// step asks the bucket, and holds everything that must be true of any answer against it.
func (m *bucketMachine) step(t *rapid.T, r reservations.Request) reservations.Outcome {
	before := m.bucket
	before.Meters = slices.Clone(m.bucket.Meters)
	tokens := slices.Clone(r.Tokens)
	// A check of nothing only brings the bucket to now.
	accrued, _ := reservations.Step(m.bucket, m.limit, clock(m.now), reservations.Request{Op: check, Tokens: make([]float64, len(tokens))})
	after, o := reservations.Step(m.bucket, m.limit, clock(m.now), r)
	if diff := cmp.Diff(before, m.bucket); diff != "" || !slices.Equal(tokens, r.Tokens) {
		t.Fatalf("Step changed what it was given:\n%s", diff)
	}
	wellFormed(t, m.limit, after)
	for k := range m.limit.Meters {
		use, was := after.Meters[k].Ledgers[reservations.LedgerUse], accrued.Meters[k].Ledgers[reservations.LedgerUse]
		given := 0.
		if r.Op == settle {
			given = max(0, r.Tokens[k])
		}
		switch {
		case use > was+given+1e-6:
			t.Fatalf("%s minted: use of meter %d went from %v to %v", r.Op, k, was, use)
		case o.State == refused && after.Meters[k] != accrued.Meters[k]:
			t.Fatalf("%s was refused and changed meter %d from %v to %v", r.Op, k, accrued.Meters[k], after.Meters[k])
		case !o.Started() && r.Op != settle && r.Op != block && r.Op != reservations.OpSync && use != was:
			t.Fatalf("%s did not start and changed use of meter %d from %v to %v", r.Op, k, was, use)
		}
	}
	if o.Hold < 0 || o.Hold > reservations.Hold || o.Wait() > reservations.MaxWait+time.Second {
		t.Fatalf("waits of %+v are out of bounds", o)
	}
	if o.Started() && m.blocked > 0 && o.At.Add(o.Hold).Sub(virtualStart).Seconds() < m.blocked-1e-8 {
		t.Fatalf("%s at %v starts after %v: the block lasts until %v", r.Op, m.now, o.Hold, m.blocked)
	}
	m.bucket = after
	return o
}

type failer interface {
	Fatalf(format string, args ...any)
}

// wellFormed: no balance is above the capacity, or above the ledger before it.
func wellFormed(t failer, l reservations.Limit, b reservations.Bucket) {
	if b.Blocked < 0 || b.Blocked > reservations.MaxBlock.Seconds() || len(b.Meters) != len(l.Meters) || b.Carry < 0 || b.Carry > reservations.Hold.Seconds() || math.IsNaN(b.Shift) {
		t.Fatalf("bucket %+v", b)
	}
	for k, balance := range b.Express {
		if use := b.Meters[k].Ledgers[reservations.LedgerUse]; l.HasHeadroom() && (math.IsNaN(balance) || balance > use || b.Owed[k] < 0) {
			t.Fatalf("express of meter %d is %v, use %v, owed %v", k, balance, use, b.Owed[k])
		}
	}
	for k, m := range l.Meters {
		above := m.Cap()
		for i, balance := range b.Meters[k].Ledgers {
			if math.IsNaN(balance) || balance > above {
				t.Fatalf("ledger %d of %s is above what it may be, %v: %v", i, m.Name, above, b.Meters[k].Ledgers)
			}
			above = balance
		}
	}
}

func (m *bucketMachine) begin(t *rapid.T, p place) {
	o := m.step(t, reservations.Request{Op: begin, State: p.state, Due: p.due, Tokens: p.tokens, Urgent: p.urgent})
	if !o.Started() {
		m.waiting = append(m.waiting, place{p.task, o.State, o.Due, p.tokens, p.urgent})
		return
	}
	m.running = append(m.running, counted{m.now + o.Hold.Seconds(), p.tokens})
	m.count(m.now+o.Hold.Seconds(), p.tokens)
	m.windows(t)
}

func (m *bucketMachine) count(at float64, tokens []float64) {
	i := len(m.counted)
	for i > 0 && m.counted[i-1].at > at {
		i--
	}
	m.counted = slices.Insert(m.counted, i, counted{at, tokens})
}

// windows: what started, less what was given back, in any window that ends with a start.
func (m *bucketMachine) windows(t *rapid.T) {
	for k, meter := range m.limit.Meters {
		for last := range m.counted {
			sum := 0.
			for first := last; first >= 0; first-- {
				sum += m.counted[first].tokens[k]
				length := m.counted[last].at - m.counted[first].at
				for _, other := range m.others { // at most what the most generous of them allows
					meter.Capacity, meter.Rate = max(meter.Cap(), other.Meters[k].Cap()), max(meter.Rate, other.Meters[k].Rate)
				}
				allowed := max(meter.Cap(), m.largest[k]) + meter.RatePerSecond()*(length+reservations.Hold.Seconds())
				if meter.Kind == reservations.KindWindow {
					began := windowOf(meter, m.counted[last].at+1e-6) - windowOf(meter, m.counted[first].at-1e-6)
					allowed = max(meter.Cap(), m.largest[k]) + meter.Rate*float64(began) + m.late[k]
				}
				if sum > allowed*(1+1e-9)+1e-6 {
					t.Fatalf("%v of %s in %v s, allowed are %v", sum, meter.Name, length, allowed)
				}
			}
		}
	}
}

// take starts at once, or leaves the ledgers as they were and starts at the time it is told.
func (m *bucketMachine) take(t *rapid.T) {
	n, urgent := m.drawTokens(t), rapid.Bool().Draw(t, "urgent")
	o := m.step(t, reservations.Request{Op: take, Tokens: n, Urgent: urgent})
	if o.Started() {
		m.running = append(m.running, counted{m.now, n})
		m.count(m.now, n)
		m.windows(t)
		return
	}
	if o.Wait() >= reservations.MaxWait { // cut
		return
	}
	at := clock(m.now)
	if m.bucket.At.After(at) {
		at = m.bucket.At
	}
	if _, then := reservations.Step(m.bucket, m.limit, at.Add(o.Wait()), reservations.Request{Op: take, Tokens: n, Urgent: urgent}); !then.Started() {
		t.Fatalf("refused with %+v, and at that time %+v", o, then)
	}
}

// block keeps everybody back until it ends, and sets back all who wait by as much as it lasts longer than the one before.
func (m *bucketMachine) block(t *rapid.T) {
	d := rapid.SampledFrom([]float64{.1, .7, 3, 100}).Draw(t, "seconds")
	accrued, _ := reservations.Step(m.bucket, m.limit, clock(m.now), reservations.Request{Op: check, Tokens: make([]float64, len(m.limit.Meters))})
	before, express := accrued.Shift, accrued.ExpressShift
	o := m.step(t, reservations.Request{Op: block, Tokens: make([]float64, len(m.limit.Meters)), For: time.Duration(d * float64(time.Second))})
	at := o.At.Sub(virtualStart).Seconds() // the bucket's clock does not run back
	longer := max(0, at+d-max(at, m.blocked))
	within := 1e-6 * max(1, longer*m.bucket.Speed)
	if back := before - longer*m.bucket.Speed - m.bucket.Shift; math.Abs(back) > within && (back < 0 || !m.limit.HasHeadroom()) {
		t.Fatalf("a block of %v s after one until %v moved the line from %v to %v", d, m.blocked, before, m.bucket.Shift)
	}
	if m.limit.HasHeadroom() && math.Abs(express-longer-m.bucket.ExpressShift) > 1e-6 {
		t.Fatalf("a block of %v s after one until %v moved the line of urgent tasks from %v to %v", d, m.blocked, express, m.bucket.ExpressShift)
	}
	m.blocked = max(m.blocked, at+d)
}

// windowOf numbers the windows of a meter.
func windowOf(m reservations.Meter, at float64) int64 {
	return int64((time.Duration(clock(at).UnixNano()) + m.Period - m.Offset()) / m.Period)
}

// returning removes one of the waiting at random, and says whether there is one.
func (m *bucketMachine) returning(t *rapid.T) (place, bool) {
	if len(m.waiting) == 0 {
		return place{}, false
	}
	i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "who")
	p := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	return p, true
}

func (m *bucketMachine) settle(t *rapid.T) {
	if len(m.running) == 0 {
		return
	}
	n := m.running[0].tokens
	m.now = max(m.now, m.running[0].at)
	m.running = m.running[1:]
	back, correction := make([]float64, len(n)), make([]float64, len(n))
	for k := range n {
		back[k] = n[k] * rapid.Float64Range(-.5, 1).Draw(t, "share back")
		if correction[k] = -back[k]; correction[k] > 0 {
			// What was used above the charge is owed, and nothing can keep it out of the window it falls in.
			correction[k] = 0
		}
	}
	for k, meter := range m.limit.Meters {
		if windowOf(meter, m.now) != windowOf(meter, m.now+reservations.Hold.Seconds()+1e-6) {
			m.late[k] += max(0, back[k])
		}
	}
	m.step(t, reservations.Request{Op: settle, Tokens: back})
	m.count(m.now, correction)
}

// drawOthers draws limits with the same meters, at other rates.
func drawOthers(t *rapid.T, l reservations.Limit) []reservations.Limit {
	others := []reservations.Limit{l}
	for range rapid.IntRange(0, 2).Draw(t, "others") {
		other := l
		other.MaxWait = rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, time.Minute}).Draw(t, "max_wait")
		other.Meters = slices.Clone(l.Meters)
		for k := range other.Meters {
			other.Meters[k].Rate *= rapid.SampledFrom([]float64{.1, .9, 1, 2, 10}).Draw(t, "times")
			other.Meters[k].Capacity *= rapid.SampledFrom([]float64{.1, 1, 3}).Draw(t, "times")
			other.Meters[k].Headroom *= other.Meters[k].Capacity / l.Meters[k].Capacity
		}
		others = append(others, other)
	}
	return others
}

func TestStepKeepsThePromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, true)
		m := &bucketMachine{limit: l, others: drawOthers(t, l), largest: make([]float64, len(l.Meters)), late: make([]float64, len(l.Meters))}
		pass := func(seconds float64) { m.now += seconds }
		t.Repeat(map[string]func(*rapid.T){
			"new":    func(t *rapid.T) { m.begin(t, place{state: fresh, tokens: m.drawTokens(t)}) },
			"urgent": func(t *rapid.T) { m.begin(t, place{state: fresh, tokens: m.drawTokens(t), urgent: true}) },
			"burst":  func(t *rapid.T) { m.burst(t) },
			"on time": func(t *rapid.T) {
				if p, ok := m.returning(t); ok {
					pass(max(0, p.due.Sub(clock(m.now)).Seconds()-m.shiftOf(p)) + 1e-9)
					m.begin(t, p)
				}
			},
			"whenever": func(t *rapid.T) {
				if p, ok := m.returning(t); ok {
					m.begin(t, p)
				}
			},
			"forgot": func(t *rapid.T) {
				if p, ok := m.returning(t); ok {
					m.begin(t, place{state: fresh, tokens: p.tokens, urgent: p.urgent})
				}
			},
			"delivered twice": func(t *rapid.T) {
				if p, ok := m.returning(t); ok {
					m.begin(t, p)
					m.begin(t, p)
				}
			},
			"reserve": func(t *rapid.T) {
				n, urgent := m.drawTokens(t), rapid.Bool().Draw(t, "urgent")
				o := m.step(t, reservations.Request{Op: reserve, Tokens: n, Urgent: urgent})
				m.waiting = append(m.waiting, place{state: o.State, due: o.Due, tokens: n, urgent: urgent})
			},
			"release": func(t *rapid.T) {
				if p, ok := m.returning(t); ok {
					m.step(t, reservations.Request{Op: release, State: p.state, Tokens: p.tokens})
				}
			},
			"check":  func(t *rapid.T) { m.step(t, reservations.Request{Op: check, Tokens: m.drawTokens(t)}) },
			"take":   func(t *rapid.T) { m.take(t) },
			"settle": func(t *rapid.T) { m.settle(t) },
			"block":  func(t *rapid.T) { m.block(t) },
			"change": func(t *rapid.T) { m.limit = rapid.SampledFrom(m.others).Draw(t, "limit") },
			"sync":   func(t *rapid.T) { m.sync(t) },
			"time passes": func(t *rapid.T) {
				pass(rapid.SampledFrom([]float64{.01, .1, .3, 1, 20}).Draw(t, "seconds"))
			},
			"the clock jitters": func(t *rapid.T) {
				back := rapid.Float64Range(0, .2).Draw(t, "seconds back")
				pass(-back)
				m.step(t, reservations.Request{Op: check, Tokens: m.drawTokens(t)})
				pass(back)
			},
		})
	})
}

// sync corrects downwards, whatever the provider says.
func (m *bucketMachine) sync(t *rapid.T) {
	seen := m.drawTokens(t)
	for k := range seen {
		if rapid.Bool().Draw(t, "unknown") {
			seen[k] = -1
		}
	}
	age := rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, time.Minute}).Draw(t, "age")
	m.step(t, reservations.Request{Op: reservations.OpSync, Tokens: seen, For: age})
}

func (m *bucketMachine) burst(t *rapid.T) {
	n, urgent := m.drawTokens(t), rapid.Bool().Draw(t, "urgent")
	for range rapid.IntRange(2, 20).Draw(t, "burst") {
		m.begin(t, place{state: fresh, tokens: n, urgent: urgent})
	}
}

// shiftOf is the clock of the line in which p stands.
func (m *bucketMachine) shiftOf(p place) float64 {
	if p.state == reservations.StateExpress {
		return m.bucket.ExpressShift
	}
	return m.bucket.Shift
}

// When everybody comes back exactly when told (of two at the same moment the elder first), nobody has to come often, and in an
// unlimited plan whoever was given a time starts at that time.
func TestStepIdleFleetStartsOnTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, false)
		m := &bucketMachine{limit: l, largest: make([]float64, len(l.Meters)), late: make([]float64, len(l.Meters))}
		unlimited := rapid.Bool().Draw(t, "unlimited")
		for k := range l.Meters {
			if unlimited {
				l.Meters[k].MaxReserved = reservations.Unlimited
			}
		}
		tasks := rapid.IntRange(1, 30).Draw(t, "tasks")
		for i := range tasks {
			m.begin(t, place{task: i, state: fresh, tokens: m.drawTokens(t)})
		}
		for returned := 0; len(m.waiting) > 0; returned++ {
			most := 4
			if l.HasHeadroom() { // those who need a full bucket come more often where the plan is short
				most = 8
			}
			if returned > most*tasks {
				t.Fatalf("%d still wait after %d returns", len(m.waiting), returned)
			}
			slices.SortFunc(m.waiting, func(a, b place) int {
				if d := a.due.Sub(b.due).Round(time.Microsecond); d != 0 {
					return int(d)
				}
				return a.task - b.task
			})
			p := m.waiting[0]
			m.waiting = m.waiting[1:]
			m.now = max(m.now, p.due.Sub(virtualStart).Seconds()-m.bucket.Shift)
			started := len(m.running)
			m.begin(t, p)
			if unlimited && len(m.running) == started {
				t.Fatalf("task %d came at %v s as it was told, and was sent back: %+v", p.task, m.now, m.waiting[len(m.waiting)-1])
			}
		}
	})
}
