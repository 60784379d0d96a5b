package reservations_test

import (
	"math"
	"testing"

	"github.com/headway-go/headway/reservations"
)

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
		{"a refused charge above the capacity comes back in full, although it holds", two, []moment{
			{0, start(1, 0), started, 0},
			{0, start(10, 100), started, .1},
			{.1, settle(0, 100), settled, 0},
		}, .1, 10, 0},
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
			b, _ := reservations.Step(life(t, c.limit, c.moments), c.limit, clock(c.at), refresh())
			if got := b.Meters[1]; math.Abs(got.Started-c.want) > 1e-7 || len(got.Held) != c.holds {
				t.Errorf("at %v s: %+v, want %v tokens and %d holds", c.at, got, c.want, c.holds)
			}
		})
	}
}
