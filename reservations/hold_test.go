package reservations_test

import (
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// ofHold is a settlement of a start whose hold ends at that second.
func ofHold(r bucket.Request, end float64) bucket.Request {
	r.HoldEnd = bucket.Answer{At: clock(end - .01), Hold: 10 * time.Millisecond}.HoldEnd()
	return r
}

// Two meters: the first one is short, so tasks hold for it, and the second one has room. Its provider counts them when
// their holds end and is full until then, so it has no room for what a refund gives back.
func TestRefundsWhileTasksHold(t *testing.T) {
	t.Parallel()
	a := perSecond("a", 10, 10, inf)
	two := limitOf(a, perSecond("b", 10, 10, inf))
	three := limitOf(a, perSecond("b", 10, 10, inf), perSecond("c", 10, 10, inf))
	windows := limitOf(a, window("b", 10, 10, 60, inf))
	short := []moment{{0, start(10, 0), started, 0}, {0, start(2, 4), started, .2}}
	for _, c := range []struct {
		name    string
		limit   reservations.Limit
		moments []moment
		at      float64
		want    float64 // what may start of b
		holds   int
	}{
		{"while a task holds nothing is refunded that its provider has no room for", two, append(short[:2:2],
			moment{0, settle(0, 3), settled, 0}), 0, 4, 1},
		{"when the hold ends the balance is the provider's", two, append(short[:2:2],
			moment{0, settle(0, 3), settled, 0}), .2, 6, 0},
		{"a refund after the hold counts in full", two, append(short[:2:2],
			moment{.2, settle(0, 3), settled, 0}), .2, 9, 0},
		{"what the provider has room for is refunded", two, []moment{
			{0, start(10, 5), started, 0},
			{0, start(2, 1), started, .2},
			{0, settle(0, 5), settled, 0},
		}, 0, 7, 1},
		{"several holds", two, []moment{
			{0, start(10, 0), started, 0},
			{0, start(1, 1), started, .1},
			{0, start(1, 2), started, .2},
			{0, settle(0, 10), settled, 0},
		}, 0, 6, 2},
		{"the first of several holds has ended", two, []moment{
			{0, start(10, 0), started, 0},
			{0, start(1, 1), started, .1},
			{0, start(1, 2), started, .2},
			{.1, settle(0, 10), settled, 0},
		}, .1, 7, 1},
		{"the first of several holds takes the most", two, []moment{
			{0, start(10, 0), started, 0},
			{0, start(1, 4), started, .1},
			{0, start(1, 1), started, .2},
			{0, settle(0, 10), settled, 0},
		}, 0, 4, 2},
		{"what another one gives back while a charge above the capacity holds is not refunded", two, []moment{
			{0, start(1, 5), started, 0},
			{.4, start(10, 100), started, .1},
			{.45, settle(0, 5), settled, 0},
		}, .5, -90, 0},
		{"a refused charge above the capacity comes back in full, although its hold counts", two, []moment{
			{0, start(2, 0), started, 0},
			{0, start(9.7, 100), started, .17},
			{.171, ofHold(settle(0, 100), .17), settled, 0},
		}, .171, 10, 0},
		{"without the end of its hold the refund is lost", two, []moment{
			{0, start(2, 0), started, 0},
			{0, start(9.7, 100), started, .17},
			{.171, settle(0, 100), settled, 0},
		}, .171, -89.99, 1},
		{"a charge above the capacity that is cancelled while it holds comes back in full", two, []moment{
			{0, start(1, 0), started, 0},
			{0, start(10, 100), started, .1},
			{.05, ofHold(settle(10, 100), .1), settled, 0},
		}, .05, 9.5, 0},
		{"a part that comes back while its hold counts", two, []moment{
			{0, start(2, 0), started, 0},
			{0, start(9.7, 100), started, .17},
			{.171, ofHold(settle(0, 98), .17), settled, 0},
			{.171, ofHold(settle(0, 1), .17), settled, 0},
		}, .171, 8.71, 1},
		{"holds of others still count", two, []moment{
			{0, start(10, 0), started, 0},
			{0, start(1, 3), started, .1},
			{0, start(1, 4), started, .2},
			{.1, ofHold(settle(0, 3), .1), settled, 0},
			{.1, ofHold(settle(0, 3), .1), settled, 0},
		}, .1, 5, 1},
		{"holds that end in the same 50 ms still count", two, []moment{
			{0, start(10, 0), started, 0},
			{0, start(.6, 1), started, .06},
			{0, start(.3, 2), started, .09},
			{.06, ofHold(settle(0, 1), .06), settled, 0},
			{.06, ofHold(settle(0, 9), .04), settled, 0},
		}, .06, 7.6, 1},
		{"what is taken leaves the hold", two, append(short[:2:2],
			moment{.1, ofHold(settle(0, -1), .2), settled, 0}, moment{.1, settle(0, 10), settled, 0}), .1, 5, 1},
		{"a start that holds shorter than the one before", three, []moment{
			{0, start(10, 0, 10), started, 0},
			{0, start(2, 1, 0), started, .2},
			{0, settle(2, 0, 0), settled, 0},
			{0, start(0, 1, 1), started, .1},
			{0, settle(0, 5, 0), settled, 0},
		}, 0, 7, 2},
		{"ends in the same 50 ms", two, []moment{
			{0, start(10, 0), started, 0},
			{0, start(.6, 1), started, .06},
			{0, start(.3, 2), started, .09},
			{0, settle(0, 3), settled, 0},
		}, 0, 6.4, 1},
		{"ends in the same 50 ms count as one", two, []moment{
			{0, start(10, 5), started, 0},
			{0, start(.6, 1), started, .06},
			{0, start(.3, 2), started, .09},
			{0, settle(0, 9), settled, 0},
		}, 0, 6, 1},
		{"an end at 50 ms is not rounded", two, []moment{
			{0, start(10, 5), started, 0},
			{0, start(.5, 1), started, .05},
			{0, settle(0, 9), settled, 0},
		}, 0, 8.5, 1},
		{"a task that takes nothing of a meter does not hold for it", two, []moment{
			{0, start(10, 5), started, 0},
			{0, start(2, 0), started, .2},
			{0, settle(0, 9), settled, 0},
		}, 0, 10, 0},
		{"a window ends during the hold", windows, []moment{
			{59.9, start(10, 0), started, 0},
			{59.9, start(2, 4), started, .2},
			{59.95, settle(0, 4), settled, 0},
		}, 60.1, 6, 0},
		{"no window ends during the hold", windows, []moment{
			{30, start(10, 0), started, 0},
			{30, start(2, 4), started, .2},
			{30, settle(0, 4), settled, 0},
		}, 30.2, 6, 0},
		{"a capacity below what comes back in the hold", limitOf(a, perSecond("b", 10, 1, inf)), []moment{
			{0, start(10, 0), started, 0},
			{0, start(2, .5), started, .2},
			{0, settle(0, .5), settled, 0},
		}, .2, .5, 0},
		{"a start that is cancelled while it holds comes back as far as there is room", two, []moment{
			{0, start(10, 8), started, 0},
			{0, start(2, 1), started, .2},
			{0, settle(2, 1), settled, 0},
		}, 0, 2, 1},
		{"of a full meter it does not come back", two, append(short[:2:2],
			moment{0, settle(2, 4), settled, 0}), .2, 6, 0},
		{"the end of a block leaves no more than the provider has at the end of the hold", two, []moment{
			{0, block(.2), settled, .2},
			{0, settle(10, 10), settled, 0},
			{0, start(4, 4), started, .2},
			{0, unblock(), settled, 0},
		}, .2, 6, 0},
		{"the clock runs back far: holds last as long", two, []moment{
			{100, start(10, 0), started, 0},
			{100, start(2, 4), started, .2},
			{30, settle(0, 3), settled, 0},
			{30.2, settle(0, 3), settled, 0},
		}, 30.2, 9, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, _ := bucket.Step(life(t, c.limit, c.moments), bucket.Rules(c.limit), clock(c.at), refresh())
			if got := b.Meters[1]; math.Abs(got.Started-c.want) > 1e-7 || len(got.Held) != c.holds {
				t.Errorf("at %v s: %+v, want %v tokens and %d holds", c.at, got, c.want, c.holds)
			}
		})
	}
}

// A wait of a few nanoseconds is rounding: the task begins at once, and a refund comes after it. A longer one is a
// hold: a refund before its end comes back only as far as its provider has room, so that no more starts beside it.
func TestAWaitThatIsRounding(t *testing.T) {
	t.Parallel()
	seven := limitOf(perSecond("tokens", 7, 7, inf))
	full := time.Duration(math.Ceil(10.5 / 7 * float64(time.Second))) // again, after a charge above the capacity
	for _, c := range []struct {
		early, hold time.Duration
		beside      bucket.State
	}{
		{0, 0, started},
		{time.Nanosecond, 0, started},
		{10 * time.Nanosecond, 0, started},
		{11 * time.Nanosecond, 11 * time.Nanosecond, reserved},
		{time.Millisecond, time.Millisecond, reserved},
	} {
		step := bucket.Rules(seven)
		b, _ := bucket.Step(bucket.Bucket{}, step, clock(0), start(10.5))
		at := clock(0).Add(full - c.early)
		b, o := bucket.Step(b, step, at, promoted(10.5))
		if !o.Started() || o.Hold != c.hold || o.HoldEnd().IsZero() != (c.hold == 0) {
			t.Errorf("%v early: %+v, hold end %v, want a hold of %v", c.early, o, o.HoldEnd(), c.hold)
		}
		b, _ = bucket.Step(b, step, at, settle(10.5)) // of the first call
		if _, o = bucket.Step(b, step, at, start(7)); o.State != c.beside {
			t.Errorf("%v early: beside it %+v, want %s", c.early, o, c.beside)
		}
	}
}
