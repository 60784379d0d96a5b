package reservations_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// A limit that is changed during a block is not blocked for longer, whatever its meters: windows of a second that a block of 100 s has emptied are not a
// debt that windows of a minute pay.
func TestStepChangeDuringABlock(t *testing.T) {
	t.Parallel()
	second, minute := windowOfSeconds(12, 1, 0), windowOfSeconds(6, 60, 0)
	slow, bucket := windowOfSeconds(2, 1, 0), perSecond("tokens", 12, 12, math.Inf(1))
	for i, c := range []struct {
		from, to reservations.Meter
		least    float64 // starts in the first minute after the block
	}{{second, minute, 6}, {second, slow, 2}, {slow, second, 12}, {minute, second, 12}, {bucket, second, 12}} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			var b reservations.Bucket
			from, to := limitOf(c.from), limitOf(c.to)
			b, _ = reservations.Step(b, from, clock(0), reservations.Request{Op: block, Tokens: []float64{0}, For: 100 * time.Second})
			b, _ = reservations.Step(b, from, clock(10), reservations.Request{Op: settle, Tokens: []float64{0}})
			b, _ = reservations.Step(b, to, clock(10), reservations.Request{Op: settle, Tokens: []float64{0}})
			early, o := reservations.Step(b, to, clock(99), reservations.Request{Op: begin, Tokens: []float64{1}})
			if o.Started() {
				t.Fatalf("started during the block: %+v of %+v", o, early)
			}
			started := 0.
			for at := 100.; at < 100+60; at += .5 {
				for {
					if b, o = reservations.Step(b, to, clock(at), reservations.Request{Op: take, Tokens: []float64{1}}); !o.Started() {
						break
					}
					started++
				}
			}
			allowed := c.to.Cap() + c.to.Rate*math.Ceil(60/c.to.Period.Seconds())
			if started < c.least || started > allowed {
				t.Errorf("%v started, want %v to %v", started, c.least, allowed)
			}
		})
	}
}

// Where a limit goes to and fro during a block, those who wait for next to nothing are not set back by more and more.
func TestStepAlternatingLimitsMoveNobodyAway(t *testing.T) {
	t.Parallel()
	named := func(m reservations.Meter, name string) reservations.Meter { m.Name, m.MaxReserved = name, 0; return m }
	one := limitOf(named(windowOfSeconds(12, 1, 0), "a"), named(windowOfSeconds(12, 1, 0), "b"))
	two := limitOf(named(windowOfSeconds(12, 1, 0), "a"), named(windowOfSeconds(6, 60, 0), "b"))
	var b reservations.Bucket
	var o reservations.Outcome
	b, _ = reservations.Step(b, one, clock(0), reservations.Request{Op: block, Tokens: []float64{0, 0}, For: 100 * time.Second})
	b, _ = reservations.Step(b, one, clock(0), reservations.Request{Op: begin, Tokens: []float64{0, 0}})
	for range 20 {
		b, _ = reservations.Step(b, two, clock(0), reservations.Request{Op: settle, Tokens: []float64{0, 0}})
		b, _ = reservations.Step(b, one, clock(0), reservations.Request{Op: settle, Tokens: []float64{0, 0}})
	}
	b, o = reservations.Step(b, one, clock(0), reservations.Request{Op: begin, Tokens: []float64{1, 1}})
	if o.Wait() > 2*time.Minute {
		t.Errorf("waits %v after a block of 100 s: %+v", o.Wait(), b)
	}
}

// A window that is used up stays so when a block covers its end and the limit's windows are longer from then on: the block has not taken it.
func TestStepChangeDuringABlockMintsNothing(t *testing.T) {
	t.Parallel()
	short, long := limitOf(windowOfSeconds(12, 7, 0)), limitOf(windowOfSeconds(12, 60, 0))
	var b reservations.Bucket
	b, o := reservations.Step(b, short, clock(5), reservations.Request{Op: take, Tokens: []float64{12}})
	if !o.Started() {
		t.Fatalf("the first 12: %+v", o)
	}
	b, _ = reservations.Step(b, short, clock(5), reservations.Request{Op: block, Tokens: []float64{0}, For: 3 * time.Second})
	b, _ = reservations.Step(b, long, clock(5), reservations.Request{Op: settle, Tokens: []float64{0}})
	if _, o := reservations.Step(b, long, clock(59), reservations.Request{Op: take, Tokens: []float64{1}}); o.Started() {
		t.Errorf("13 started in a minute that has 12: %+v", b)
	}
	if _, o := reservations.Step(b, long, clock(60), reservations.Request{Op: take, Tokens: []float64{12}}); !o.Started() {
		t.Errorf("the next minute has none: %+v", b)
	}
}

// A meter that a caller's limit lacks when the bucket is blocked: it is as empty as the others when the block ends, whatever its rate is then, and
// callers with and without it who take turns meanwhile change nothing.
func TestStepBlockWithoutAMeter(t *testing.T) {
	t.Parallel()
	with := limitOf(perSecond("idle", 10, 10, math.Inf(1)), perSecond("other", 100, 100, math.Inf(1)))
	slower := limitOf(perSecond("idle", 5, 10, math.Inf(1)), perSecond("other", 100, 100, math.Inf(1)))
	without := limitOf(perSecond("other", 100, 100, math.Inf(1)))
	nothing := func(l reservations.Limit) reservations.Request {
		return reservations.Request{Op: settle, Tokens: make([]float64, len(l.Meters))}
	}
	for _, back := range []reservations.Limit{with, slower} {
		for _, turns := range []int{0, 20} {
			var b reservations.Bucket
			step := func(at float64, l reservations.Limit, r reservations.Request) (o reservations.Outcome) {
				b, o = reservations.Step(b, l, clock(at), r)
				return o
			}
			step(0, with, nothing(with))
			step(0, without, reservations.Request{Op: block, Tokens: []float64{0}, For: 3 * time.Second})
			for range turns {
				step(1, back, nothing(back))
				step(1, without, nothing(without))
			}
			rate := back.Meters[0].RatePerSecond()
			if o := step(2, back, reservations.Request{Op: begin, Tokens: []float64{2, 0}, Dry: true}); math.Abs(o.Wait().Seconds()-1-2/rate) > 1e-6 {
				t.Errorf("after %d turns a newcomer waits %v, want the second until the block ends, and what 2 tokens need", turns, o.Wait())
			}
			if o := step(3, back, reservations.Request{Op: reservations.OpTake, Tokens: []float64{1, 0}}); o.Started() {
				t.Errorf("after %d turns something is there when the block ends: %+v", turns, b.Meters)
			}
			if o := step(3+1.01/rate, back, reservations.Request{Op: reservations.OpTake, Tokens: []float64{1, 0}}); !o.Started() {
				t.Errorf("after %d turns nothing came back: %+v", turns, b.Meters)
			}
		}
	}
}
