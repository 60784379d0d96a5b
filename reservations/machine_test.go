package reservations_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

// machine sends one bucket all that a fleet may send, right or wrong: early, late, twice, forgotten, with two limits.
type machine struct {
	limits []reservations.Limit // of the callers: the same meters
	limit  reservations.Limit   // of the next request
	bucket bucket.Bucket
	now    float64 // the store's clock
	passed float64 // seconds that the clock ran forwards
	judges []*judge
	// providers are the providers of the meters, where all callers have the same limit.
	providers []*provider
	blocked   float64 // in passed: until then nothing starts that is asked for now
	waiting   []ticket
	running   []run
	ids       int64
}

type ticket struct {
	r bucket.Request // what it asks with when it is promoted
}

type run struct {
	end    float64 // of its hold, in passed
	tokens []float64
	id     int64
	held   time.Time // its HoldEnd
	// numbers are the numbers of the judges' events.
	numbers []int
}

func newMachine(t *rapid.T) *machine {
	l := drawLimit(t)
	m := &machine{limit: l, limits: []reservations.Limit{l}, now: rapid.Float64Range(0, 60).Draw(t, "begins")}
	for range rapid.IntRange(0, 2).Draw(t, "others") {
		m.limits = append(m.limits, drawOther(t, l))
	}
	for k := range l.Meters {
		j := &judge{}
		for _, o := range m.limits {
			j.force = append(j.force, bucket.Rules(o).Meters[k])
		}
		m.judges = append(m.judges, j)
		if len(m.limits) == 1 {
			m.providers = append(m.providers, newProvider(l, k, clock(m.now)))
		}
	}
	return m
}

func drawLimit(t *rapid.T) reservations.Limit {
	var l reservations.Limit
	for k := range rapid.IntRange(1, 3).Draw(t, "meters") {
		rate := rapid.SampledFrom([]float64{.1, 1, 7, 100, 2500}).Draw(t, "rate")
		m := perSecond(fmt.Sprintf("m%d", k), rate,
			rate*rapid.SampledFrom([]float64{.1, 1, 3, 60}).Draw(t, "capacity"),
			rate*rapid.SampledFrom([]float64{0, .5, 5, 100, inf}).Draw(t, "max_reserved"))
		if rapid.Bool().Draw(t, "window") {
			seconds := rapid.SampledFrom([]float64{1, 7, 60}).Draw(t, "period")
			m.Kind, m.Rate, m.Period = reservations.KindWindow, rate*seconds, time.Duration(seconds)*time.Second
			m.Start = rapid.SampledFrom([]time.Duration{
				0, 300 * time.Millisecond,
				-time.Hour - time.Millisecond,
			}).Draw(t, "start")
		} else {
			m.Headroom = m.Cap() * rapid.SampledFrom([]float64{0, 0, .1, .5, .9}).Draw(t, "headroom")
		}
		l.Meters = append(l.Meters, m)
	}
	l.Name = "drawn"
	l.MaxWait = rapid.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, time.Minute}).Draw(t, "max_wait")
	return l
}

// drawOther draws a limit with the same meters, at other rates and of other sizes.
func drawOther(t *rapid.T, l reservations.Limit) reservations.Limit {
	l.Meters = slices.Clone(l.Meters)
	for k := range l.Meters {
		l.Meters[k].Rate *= rapid.SampledFrom([]float64{.1, .9, 1, 2, 10}).Draw(t, "times")
		l.Meters[k].Capacity *= rapid.SampledFrom([]float64{.1, 1, 3}).Draw(t, "times")
		l.Meters[k].Headroom = min(l.Meters[k].Headroom, l.Meters[k].Capacity/2)
	}
	return l
}

func (m *machine) drawTokens(t *rapid.T) []float64 {
	n := make([]float64, len(m.limit.Meters))
	for k, meter := range m.limit.Meters {
		part := rapid.SampledFrom([]float64{0, .01, .1, .5, 1, 1.5}).Draw(t, "charge")
		n[k] = min(meter.Rules().Largest(), meter.Cap()*part)
	}
	return n
}

func (m *machine) pass(seconds float64) {
	d := time.Duration(seconds * float64(time.Second))
	for _, j := range m.judges {
		j.pass(clock(m.now), d)
	}
	for _, p := range m.providers {
		p.pass(d)
	}
	m.now += d.Seconds()
	m.passed += d.Seconds()
}

// ask sends a request and holds everything against the answer that must be true of any.
func (m *machine) ask(t *rapid.T, r bucket.Request) bucket.Answer {
	m.limit = rapid.SampledFrom(m.limits).Draw(t, "limit")
	was, text := m.bucket, fmt.Sprintf("%+v %+v", m.bucket, r)
	accrued, _ := bucket.Step(was, bucket.Rules(m.limit), clock(m.now), dry(refresh()))
	dried, answer := bucket.Step(was, bucket.Rules(m.limit), clock(m.now), dry(r))
	got, o := bucket.Step(was, bucket.Rules(m.limit), clock(m.now), r)
	if after := fmt.Sprintf("%+v %+v", was, r); after != text {
		t.Fatalf("Step changed what it was given from %s to %s", text, after)
	}
	if diff := cmp.Diff(accrued, dried); diff != "" {
		t.Fatalf("dry %+v changed the bucket: %s", r, diff)
	}
	if o.State != answer.State || o.Hold != answer.Hold || !o.RetryAt.Equal(answer.RetryAt) || !o.At.Equal(answer.At) {
		t.Fatalf("dry %+v: %+v, want %+v", r, answer, o)
	}
	wellFormed(t, bucket.Rules(m.limit), got)
	m.version(t, r, was, accrued, got)
	m.balances(t, r, o, accrued, got)
	if o.Hold < 0 || o.Hold > bucket.Hold || o.Wait() > bucket.MaxWait || o.Bucket.Version != got.Version {
		t.Fatalf("%+v: %+v", r, o)
	}
	if m.bucket = got; o.Started() && !r.Dry {
		m.starts(t, r, o)
	}
	for _, p := range m.providers {
		if p.fault != "" {
			t.Fatalf("the provider of meter %d: %s", p.meter, p.fault)
		}
	}
	return o
}

type failer interface {
	Fatalf(format string, args ...any)
}

// wellFormed: reserved <= started <= capacity, and the holds are all in the future, in order.
func wellFormed(t failer, l bucket.Limit, b bucket.Bucket) {
	if len(b.Meters) < len(l.Meters) || b.At.IsZero() || len(b.Settled) > 64 {
		t.Fatalf("bucket %+v", b)
	}
	for k, s := range b.Meters {
		capacity := s.Filling.Capacity
		if k < len(l.Meters) && (s.Name != l.Meters[k].Name || capacity != l.Meters[k].Filling.Capacity) {
			t.Fatalf("meter %d of %+v is not that of %+v", k, b, l)
		}
		if math.IsNaN(s.Started) || math.IsInf(s.Reserved, 0) || s.Started > capacity || s.Reserved > s.Started {
			t.Fatalf("balances %+v", s)
		}
		ended := b.At
		for _, h := range s.Held {
			most := b.At.Add(bucket.Hold + 50*time.Millisecond)
			if !h.Until.After(ended) || h.Until.After(most) || !(h.Tokens > 0) {
				t.Fatalf("at %v holds %+v", b.At, s.Held)
			}
			ended = h.Until
		}
	}
}

// version grows by one where the request changed something, and else not.
func (m *machine) version(t *rapid.T, r bucket.Request, was, accrued, got bucket.Bucket) {
	changed := !cmp.Equal(balances(accrued), balances(got)) || !accrued.Blocked.Equal(got.Blocked) ||
		!cmp.Equal(was.Settled, got.Settled)
	if !was.At.IsZero() {
		changed = changed || got.At.Before(was.At) || len(was.Meters) != len(got.Meters) ||
			!was.Follows(bucket.Rules(m.limit))
	}
	want := was.Version
	if changed && !r.Dry {
		want++
	}
	if got.Version != want {
		t.Fatalf("%+v: version %d after %d, changed %v: %+v became %+v", r, got.Version, was.Version, changed, accrued, got)
	}
}

// balances: only a settlement, a sync, and an unblock after a sync give to what may start. Only starts, settlements,
// blocks, syncs and the early end of a block take from it.
func (m *machine) balances(t *rapid.T, r bucket.Request, o bucket.Answer, accrued, got bucket.Bucket) {
	for k := range m.limit.Meters {
		was, is := accrued.Meters[k], got.Meters[k]
		may := 0.
		if r.Op == bucket.OpSettle {
			may = max(0, r.Tokens[k])
		}
		if r.Op == bucket.OpUnblock {
			may = was.Lowered
		}
		promised := may
		if r.Op == bucket.OpRelease {
			promised = r.Tokens[k]
		}
		tiny := 1e-9*math.Abs(was.Started) + 1e-9
		if is.Started > was.Started+may+tiny || is.Reserved > was.Reserved+promised+tiny {
			t.Fatalf("%+v minted: %+v became %+v", r, was, is)
		}
		takes := o.Started() && !r.Dry || r.Op == bucket.OpSettle || r.Op == bucket.OpBlock ||
			r.Op == bucket.OpSync || r.Op == bucket.OpUnblock
		if !takes && is.Started != was.Started {
			t.Fatalf("%+v was answered %s and changed what may start: %+v became %+v", r, o.State, was, is)
		}
		if (o.State == waiting || o.State == refused) && !cmp.Equal(is, was) {
			t.Fatalf("%+v was answered %s and changed %+v to %+v", r, o.State, was, is)
		}
	}
}

func (m *machine) starts(t *rapid.T, r bucket.Request, o bucket.Answer) {
	if end := m.passed + o.Hold.Seconds(); end < m.blocked-1e-7 {
		t.Fatalf("%+v starts at %v, blocked until %v", r, end, m.blocked)
	}
	m.ids++
	one := run{end: m.passed + o.Hold.Seconds(), tokens: r.Tokens, id: m.ids, held: o.HoldEnd()}
	for k, j := range m.judges {
		if fault := j.begins(m.passed, o.At, o.Hold, r.Tokens[k], m.limit.Meters[k].Cap()); fault != "" {
			t.Fatalf("meter %s: %s", m.limit.Meters[k].Name, fault)
		}
		one.numbers = append(one.numbers, j.count)
	}
	for _, p := range m.providers {
		p.comes(m.ids, o.Hold, r.Tokens[p.meter])
	}
	m.running = append(m.running, one)
}

// begin asks for a start, and lets the task wait where there is none.
func (m *machine) begin(t *rapid.T, r bucket.Request) {
	o := m.ask(t, r)
	if o.Started() || o.State == refused {
		return
	}
	held := r.Reserved || o.State == reserved
	m.waiting = append(m.waiting, ticket{bucket.Request{
		Op: bucket.OpStart, Promoted: true, Reserved: held, Tokens: r.Tokens, Urgent: r.Urgent,
	}})
}

func (m *machine) drawn(t *rapid.T, op bucket.Op) bucket.Request {
	return bucket.Request{Op: op, Tokens: m.drawTokens(t), Urgent: rapid.Bool().Draw(t, "urgent")}
}

// leaves removes one of the waiting tasks.
func (m *machine) leaves(t *rapid.T) (bucket.Request, bool) {
	if len(m.waiting) == 0 {
		return bucket.Request{}, false
	}
	i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "which")
	r := m.waiting[i].r
	m.waiting = slices.Delete(m.waiting, i, i+1)
	return r, true
}

func (m *machine) settle(t *rapid.T) {
	if len(m.running) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.running)-1).Draw(t, "which")
	m.pass(max(0, m.running[i].end-m.passed) + rapid.SampledFrom([]float64{1e-6, .01, 1}).Draw(t, "runs"))
	m.correct(t, i)
}

// correct settles one of the running tasks.
func (m *machine) correct(t *rapid.T, i int) {
	r := m.running[i]
	m.running = slices.Delete(m.running, i, i+1)
	back := make([]float64, len(r.tokens))
	for k, n := range r.tokens {
		back[k] = n * rapid.SampledFrom([]float64{-.5, 0, .3, 1}).Draw(t, "back")
		m.judges[k].corrected(m.passed, -back[k])
	}
	for _, p := range m.providers {
		p.refund(back[p.meter])
	}
	for range rapid.IntRange(1, 2).Draw(t, "times") { // once more changes nothing
		settlement := settleID(r.id, rapid.SampledFrom([]float64{0, 3}).Draw(t, "ago"), back...)
		settlement.HoldEnd = rapid.SampledFrom([]time.Time{r.held, {}}).Draw(t, "hold ends")
		m.ask(t, settlement)
	}
}

// refundsBesideAHold settles a task while another one holds, and then starts all that is there.
func (m *machine) refundsBesideAHold(t *rapid.T) {
	all := func() bucket.Request {
		b, _ := bucket.Step(m.bucket, bucket.Rules(m.limit), clock(m.now), dry(refresh()))
		r := bucket.Request{Op: bucket.OpStart, Promoted: true, Urgent: true}
		for k, meter := range m.limit.Meters {
			r.Tokens = append(r.Tokens, min(meter.Rules().Largest(), max(0, b.Meters[k].Started)))
		}
		return r
	}
	r, short := all(), rapid.IntRange(0, len(m.limit.Meters)-1).Draw(t, "short")
	for k, meter := range m.limit.Meters {
		if k == short {
			r.Tokens[k] += meter.Rules().RatePerSecond() * rapid.SampledFrom([]float64{.02, .1, .2}).Draw(t, "hold")
		} else {
			r.Tokens[k] *= rapid.SampledFrom([]float64{.01, .1, .5}).Draw(t, "part")
		}
		r.Tokens[k] = min(r.Tokens[k], meter.Rules().Largest())
	}
	o := m.ask(t, r)
	for range 3 {
		if i := slices.IndexFunc(m.running, func(r run) bool { return r.end <= m.passed }); i >= 0 {
			m.correct(t, i)
		}
	}
	m.pass(o.Hold.Seconds() * rapid.SampledFrom([]float64{.5, 1, 1, 2}).Draw(t, "passes"))
	m.ask(t, all())
}

// cancel gives back a start that still holds: its call never comes.
func (m *machine) cancel(t *rapid.T) {
	i := slices.IndexFunc(m.running, func(r run) bool { return r.end > m.passed })
	if i < 0 {
		return
	}
	r := m.running[i]
	m.running = slices.Delete(m.running, i, i+1)
	for k, j := range m.judges {
		j.cancelled(r.numbers[k])
	}
	for _, p := range m.providers {
		p.cancel(r.id)
	}
	settlement := settleID(r.id, 0, r.tokens...)
	settlement.HoldEnd = rapid.SampledFrom([]time.Time{r.held, {}}).Draw(t, "hold ends")
	m.ask(t, settlement)
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"new": func(t *rapid.T) { m.begin(t, m.drawn(t, bucket.OpStart)) },
		"burst": func(t *rapid.T) {
			r := m.drawn(t, bucket.OpStart)
			for range rapid.IntRange(2, 20).Draw(t, "burst") {
				m.begin(t, r)
			}
		},
		"reserve": func(t *rapid.T) { m.begin(t, m.drawn(t, bucket.OpReserve)) },
		"allow":   func(t *rapid.T) { m.begin(t, m.drawn(t, bucket.OpAllow)) },
		"promoted on time": func(t *rapid.T) {
			if r, ok := m.leaves(t); ok {
				o := m.ask(t, dry(r))
				m.pass(o.Wait().Seconds())
				m.begin(t, r)
			}
		},
		"promoted whenever": func(t *rapid.T) {
			if r, ok := m.leaves(t); ok {
				m.begin(t, r)
			}
		},
		"promoted twice": func(t *rapid.T) {
			if r, ok := m.leaves(t); ok {
				m.begin(t, r)
				m.begin(t, r)
			}
		},
		"release": func(t *rapid.T) {
			if r, ok := m.leaves(t); ok {
				m.ask(t, release(r.Tokens...))
			}
		},
		"settle": m.settle,
		"cancel": m.cancel,

		"refunds beside a hold": m.refundsBesideAHold,
		"sync": func(t *rapid.T) {
			left := m.drawTokens(t)
			for k := range left {
				if rapid.Bool().Draw(t, "unknown") {
					left[k] = -1
				}
			}
			m.ask(t, synced(rapid.SampledFrom([]float64{0, .01, 60}).Draw(t, "age"), left...))
		},
		"block": func(t *rapid.T) {
			d := rapid.SampledFrom([]float64{0, .1, .7, 3, 100}).Draw(t, "seconds")
			m.ask(t, block(d))
			m.blocked = max(m.blocked, m.passed+d)
		},
		"unblock": func(t *rapid.T) {
			m.ask(t, unblock())
			m.blocked = 0
		},
		"refresh":     func(t *rapid.T) { m.ask(t, refresh()) },
		"time passes": func(t *rapid.T) { m.pass(rapid.SampledFrom([]float64{.01, .1, .3, 1, 20}).Draw(t, "seconds")) },
		"the clock runs back": func(t *rapid.T) {
			m.providers = slices.DeleteFunc(m.providers, (*provider).windowed) // their windows do not end twice
			m.now -= rapid.SampledFrom([]float64{.01, .2, 30, 90, 3600}).Draw(t, "seconds")
		},
	}
}

// disturb sends n random requests.
func (m *machine) disturb(t *rapid.T, n int) {
	actions := m.actions()
	names := slices.Sorted(maps.Keys(actions))
	for range n {
		actions[rapid.SampledFrom(names).Draw(t, "action")](t)
	}
}

// In any window of time no more starts than the limits allow, whatever is asked in whatever order.
func TestStepKeepsThePromise(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) { t.Repeat(newMachine(t).actions()) })
}

// A call that used nothing leaves its bucket as if it had never started, but for what comes back in a hold: at its end
// the provider is full.
func TestUnusedStartsComeBack(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.limits = m.limits[:1] // a capacity that shrinks leaves no room for what holds
		m.limit = m.limits[0]
		m.disturb(t, rapid.IntRange(0, 20).Draw(t, "steps"))
		r := m.drawn(t, bucket.OpStart)
		r.Promoted = true
		wait := m.ask(t, dry(r)).Wait().Seconds()
		m.pass(max(0, wait-rapid.SampledFrom([]float64{0, .001, .06, .2}).Draw(t, "early")))
		before := m.bucket
		after, o := bucket.Step(before, bucket.Rules(m.limit), clock(m.now), r)
		if !o.Started() {
			return
		}
		passes := rapid.SampledFrom([]float64{0, .5, 1, 1.01, 1.2, 3}).Draw(t, "passes")
		m.pass(o.Hold.Seconds() * passes)
		back := settle(r.Tokens...)
		back.HoldEnd = o.HoldEnd()
		after, _ = bucket.Step(after, bucket.Rules(m.limit), clock(m.now), back)
		never, _ := bucket.Step(before, bucket.Rules(m.limit), clock(m.now), refresh())
		for k, meter := range bucket.Rules(m.limit).Meters {
			lost := brings(meter, o.At, bucket.Hold+50*time.Millisecond) + 1e-6
			got, want := after.Meters[k], never.Meters[k]
			if got.Started < want.Started-lost || got.Reserved < want.Reserved-lost {
				t.Fatalf("%+v, %v s after a hold of %v: %+v, want %+v", r, passes, o.Hold, got, want)
			}
		}
	})
}
