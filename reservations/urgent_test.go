package reservations_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/reservations"
)

// urgentLimit is 10 tokens a second, capacity 10, of which 4 are for urgent tasks; ordinary ones keep half of the rate.
func urgentLimit() reservations.Limit {
	l := withHeadroom(limitOf(perSecond("tokens", 10, 10, math.Inf(1))), 4)
	l.OrdinaryShare = .5
	return l
}

// urgentStep is one request at a moment, and the answer: what is waited for, a hold or the time until due.
type urgentStep struct {
	at     float64
	r      reservations.Request
	state  reservations.State
	wait   float64
	shift  float64 // of the ordinary line
	urgent float64 // the shift of the urgent line
}

func ordinaryOf(n float64, s reservations.State) reservations.Request {
	return reservations.Request{Op: begin, State: s, Tokens: []float64{n}}
}

func urgentOf(n float64, s reservations.State) reservations.Request {
	return reservations.Request{Op: begin, State: s, Tokens: []float64{n}, Urgent: true}
}

func TestUrgentSteps(t *testing.T) {
	t.Parallel()
	express := reservations.StateExpress
	for name, steps := range map[string][]urgentStep{
		"ordinary ones leave the headroom": {
			{0, ordinaryOf(6, fresh), started, 0, 0, 0},
			{0, ordinaryOf(1, fresh), started, .1, 0, 0},
			{0, ordinaryOf(5, fresh), reserved, .6, 0, 0},
			{0, reservations.Request{Op: take, Tokens: []float64{1}}, refused, .7, 0, 0},
		},
		"urgent ones use it, and set the line back": {
			{0, ordinaryOf(6, fresh), started, 0, 0, 0},
			{0, ordinaryOf(5, fresh), reserved, .5, 0, 0},
			{0, urgentOf(3, fresh), started, 0, -.3, 0},
			{0, reservations.Request{Op: take, Tokens: []float64{1}, Urgent: true}, started, 0, -.4, 0},
			{.9, ordinaryOf(5, reserved), started, 0, -.4, 0},
		},
		"who comes and finds urgent starts in the way keeps the place": {
			{0, ordinaryOf(6, fresh), started, 0, 0, 0},
			{0, ordinaryOf(5, fresh), reserved, .5, 0, 0},
			{.3, urgentOf(3, fresh), started, 0, 0, 0}, // use was beyond the headroom
			{.5, reservations.Request{Op: check, State: reserved, Tokens: []float64{5}}, reserved, .3, 0, 0},
			{.5, ordinaryOf(5, reserved), reserved, .3, -.3, 0},
			{.8, ordinaryOf(5, reserved), started, 0, -.3, 0},
		},
		"what use had beyond the headroom moves nobody": {
			{0, urgentOf(6, fresh), started, 0, 0, 0},
			{0, urgentOf(1, fresh), started, 0, -.1, 0},
		},
		"no room: a line of their own, at their pace": {
			{0, ordinaryOf(6, fresh), started, 0, 0, 0},
			{0, urgentOf(4, fresh), started, 0, -.4, 0},
			{0, urgentOf(5, fresh), express, .5, -.4, 0},
			{0, ordinaryOf(1, fresh), reserved, .5, -.4, 0}, // use alone: the urgent place is not theirs
			{0, urgentOf(5, fresh), express, 2, -.4, 0},     // half of the rate now
			{0, reservations.Request{Op: take, Tokens: []float64{1}, Urgent: true}, refused, 2.2, -.4, 0},
			{.5, urgentOf(5, express), started, 0, -.8, 0},
		},
		"a settlement moves both lines": {
			{0, ordinaryOf(6, fresh), started, 0, 0, 0},
			{0, urgentOf(4, fresh), started, 0, -.4, 0},
			{0, urgentOf(8, fresh), express, .8, -.4, 0},
			{0, reservations.Request{Op: settle, Tokens: []float64{2}}, reservations.StateSettled, 0, -.4, .2},
			{0, urgentOf(8, express), express, 1.4, -.4, .2},
		},
		"a block moves both lines": {
			{0, ordinaryOf(6, fresh), started, 0, 0, 0},
			{0, reservations.Request{Op: block, Tokens: []float64{0}, For: 2 * time.Second}, reservations.StateSettled, 2, -2.4, -2},
			{0, urgentOf(1, fresh), express, 2.1, -2.4, -2},
			{1, reservations.Request{Op: block, Tokens: []float64{0}, For: 2 * time.Second}, reservations.StateSettled, 2, -3.4, -3},
			{3, urgentOf(1, express), started, .1, -3.5, -3},
		},
		"a place that is released": {
			{0, urgentOf(10, fresh), started, 0, -.4, 0},
			{0, urgentOf(5, fresh), express, .5, -.4, 0},
			{0, reservations.Request{Op: release, State: express, Tokens: []float64{5}}, reservations.StateSettled, 0, -.4, 0},
			{0, urgentOf(5, fresh), express, .5, -.4, 0},
		},
		"reserve is a place, check and dry are none": {
			{0, reservations.Request{Op: reserve, Tokens: []float64{10}, Urgent: true}, express, 0, 0, 0},
			{0, reservations.Request{Op: check, Tokens: []float64{5}, Urgent: true}, express, .5, 0, 0},
			{0, reservations.Request{Op: reserve, Tokens: []float64{5}, Urgent: true, Dry: true}, express, .5, 0, 0},
			{0, reservations.Request{Op: check, State: express, Tokens: []float64{10}, Urgent: true}, started, 0, 0, 0},
			{0, urgentOf(10, express), started, 0, -.4, 0},
		},
		"late after a refusal": {
			{0, urgentOf(10, fresh), started, 0, -.4, 0},
			{0, urgentOf(2, reservations.StateLate), started, .2, -.6, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b reservations.Bucket
			for i, s := range steps {
				var o reservations.Outcome
				b, o = reservations.Step(b, urgentLimit(), clock(s.at), s.r)
				wait := o.Wait() + o.Hold
				if o.State == reservations.StateSettled && !o.Due.IsZero() {
					wait = o.Due.Sub(o.At) - o.Shift
				}
				if o.State != s.state || math.Abs(wait.Seconds()-s.wait) > 1e-6 || math.Abs(o.Shift.Seconds()-s.shift) > 1e-6 ||
					math.Abs(o.ExpressShift.Seconds()-s.urgent) > 1e-6 || !o.Headroom {
					t.Fatalf("step %d: %+v, waits %v\nwant %+v", i, o, wait, s)
				}
			}
		})
	}
}

// Without headroom nothing tells an urgent task from another.
func TestUrgentWithoutHeadroom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, true)
		for k := range l.Meters {
			l.Meters[k].Headroom = 0
		}
		var b reservations.Bucket
		m := &bucketMachine{limit: l, largest: make([]float64, len(l.Meters)), late: make([]float64, len(l.Meters))}
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			r := reservations.Request{
				Op:     rapid.SampledFrom([]reservations.Op{begin, reserve, take, check, release}).Draw(t, "op"),
				State:  rapid.SampledFrom([]reservations.State{fresh, reserved, reservations.StateExpress}).Draw(t, "state"),
				Tokens: m.drawTokens(t),
			}
			u := r
			u.Urgent = true
			plain, o := reservations.Step(b, l, clock(m.now), r)
			urgent, p := reservations.Step(b, l, clock(m.now), u)
			if diff := cmp.Diff(plain, urgent) + cmp.Diff(o, p); diff != "" || o.Headroom {
				t.Fatalf("%+v: %s", r, diff)
			}
			b, m.now = plain, m.now+rapid.SampledFrom([]float64{0, .1, 3}).Draw(t, "seconds")
		}
	})
}

// A limit that gains headroom, changes, and loses it again: nothing is lost for those who wait.
func TestUrgentLimitChanges(t *testing.T) {
	t.Parallel()
	l, plain := urgentLimit(), limitOf(perSecond("tokens", 10, 10, math.Inf(1)))
	b, _ := reservations.Step(reservations.Bucket{}, plain, clock(0), ordinaryOf(10, fresh))
	b, o := reservations.Step(b, l, clock(0), urgentOf(10, fresh))
	if o.State != reservations.StateExpress || o.Wait() != time.Second {
		t.Fatalf("an urgent task waits %v with %+v", o.Wait(), o)
	}
	faster := urgentLimit()
	faster.Meters[0].Rate = 20
	b, o = reservations.Step(b, faster, clock(0), urgentOf(10, fresh))
	if o.State != reservations.StateExpress || o.Wait() != 500*time.Millisecond {
		t.Fatalf("an urgent task waits %v with %+v", o.Wait(), o)
	}
	if _, o = reservations.Step(b, plain, clock(1), urgentOf(10, reservations.StateExpress)); !o.Started() || o.Headroom {
		t.Fatalf("without headroom it is %+v", o)
	}
	if full := b.FullAt(faster); full.Before(clock(1)) {
		t.Errorf("the bucket can be forgotten at %v", full)
	}
}

func TestHeadroomFaults(t *testing.T) {
	t.Parallel()
	window := reservations.PerDay("daily", 5)
	for name, c := range map[string]struct {
		change func(l *reservations.Limit)
		want   string
	}{
		"fine":              {func(*reservations.Limit) {}, ""},
		"negative":          {func(l *reservations.Limit) { l.Meters[0].Headroom = -1 }, "tokens.headroom: -1 must not be negative"},
		"not a number":      {func(l *reservations.Limit) { l.Meters[0].Headroom = math.NaN() }, "tokens.headroom"},
		"the capacity":      {func(l *reservations.Limit) { l.Meters[0].Headroom = 10 }, "less than the capacity, 10"},
		"share one":         {func(l *reservations.Limit) { l.OrdinaryShare = 1 }, "ordinary_share: 1 must be between 0 and 1"},
		"share no number":   {func(l *reservations.Limit) { l.OrdinaryShare = math.NaN() }, "ordinary_share"},
		"on a window":       {func(l *reservations.Limit) { window.Headroom = 1; l.Meters = append(l.Meters, window) }, "daily.headroom: a fixed window"},
		"beside a window":   {func(l *reservations.Limit) { l.Meters = append(l.Meters, reservations.PerDay("daily", 5)) }, "daily.kind: a limit with headroom"},
		"no limit of tasks": {func(l *reservations.Limit) { l.Meters[0].Headroom, l.OrdinaryShare = 0, .3 }, ""},
	} {
		l := urgentLimit()
		c.change(&l)
		if err := l.Validate(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for headroom, want := range map[float64]string{4: "", 2: "less than what comes back in 250ms", 6: "more than half"} {
		l := urgentLimit()
		if l.Meters[0].Headroom = headroom; want == "" != (len(l.Warnings()) == 0) || !strings.Contains(strings.Join(l.Warnings(), ""), want) {
			t.Errorf("headroom %v: %q", headroom, l.Warnings())
		}
	}
	l := urgentLimit()
	l.Meters[0].Headroom = 0
	if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], "ordinary_share says nothing") {
		t.Errorf("%q", w)
	}
}
