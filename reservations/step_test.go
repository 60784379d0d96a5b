package reservations_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

func TestStepMoments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		limit   reservations.Limit
		moments []moment
	}{
		{"starts while there is room", ten(inf), []moment{
			{0, start(10), started, 0},
			{1, start(4), started, 0},
			{1, start(6), started, 0},
			{1, start(10), reserved, 1},
		}},
		{"short by exactly 250 ms starts and holds", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(2.5), started, .25},
			{0, start(.1), reserved, .26},
		}},
		{"a nanosecond more reserves", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(2.50000001), reserved, .250000001},
		}},
		{"a promoted task holds as long", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, promoted(2.50000001), waiting, .250000001},
			{0, promoted(2.5), started, .25},
		}},
		{"a charge of nothing starts when nothing is owed", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(0), started, 0},
			{0, start(10), reserved, 1},
			{0, start(0), reserved, 1},
			{0, promoted(0), started, 0},
		}},
		{"no capacity means one period's worth", limitOf(reservations.PerMinute("tokens", 600)), []moment{
			{0, start(600), started, 0},
			{0, start(10), reserved, 1},
		}},
		{"reserved tasks start at their times", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(5), reserved, .5},
			{0, start(5), reserved, 1},
			{.5, holder(5), started, 0},
			{.5, start(1), reserved, .6},
			{1, holder(5), started, 0},
			{1.1, holder(1), started, 0},
			{1.1, start(5), reserved, .5},
		}},
		{"a promoted task that comes too early changes nothing", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(10), reserved, 1},
			{.5, holder(10), waiting, .5},
			{.5, holder(10), waiting, .5},
			{.5, start(5), reserved, 1},
			{.8, holder(10), started, .2},
		}},
		{"a promoted task does not look at what is promised", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, reserve(10), reserved, 1},
			{0, reserve(10), reserved, 2},
			{1, promoted(10), started, 0},
			{1, holder(10), waiting, 1},
			{1, start(1), reserved, 2.1},
		}},
		{"after an outage the started balance counts", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(10), reserved, 1},
			{0, start(10), reserved, 2},
			{5, holder(10), started, 0},
			{5, holder(10), waiting, 1},
			{5, start(1), started, .1},
			{6.1, holder(10), started, 0},
		}},
		{"reserve promises and never starts", ten(inf), []moment{
			{0, reserve(4), reserved, 0},
			{0, reserve(10), reserved, .4},
			{0, holder(4), started, 0},
			{.4, holder(10), started, 0},
		}},
		{"max_reserved bounds the promises", ten(10), []moment{
			{0, start(10), started, 0},
			{0, start(5), reserved, .5},
			{0, start(5.1), waiting, 1.01},
			{0, start(5), reserved, 1},
			{0, start(1), waiting, 1.1},
			{0, reserve(1), waiting, 1.1},
			{.1, reserve(1), reserved, 1},
		}},
		{"no max_reserved: no promises", ten(0), []moment{
			{0, reserve(10), reserved, 0},
			{0, reserve(1), waiting, .1},
			{0, holder(10), started, 0},
			{0, start(5), waiting, .5},
			{0, start(5), waiting, .5},
			{0, start(2), started, .2},
			{.7, promoted(5), started, 0},
		}},
		{"max_wait bounds the promises of all meters", func() reservations.Limit {
			l := limitOf(perSecond("tokens", 10, 10, inf), perSecond("requests", 1, 10, inf))
			l.MaxWait = time.Second
			return l
		}(), []moment{
			{0, start(10, 0), started, 0},
			{0, start(10, 0), reserved, 1},
			{0, start(1, 0), waiting, 1.1},
			{1, holder(10, 9), started, 0},
			{1, start(0, 2), reserved, 1},
			{1, reserve(0, 1), waiting, 2},
			{3, promoted(0, 2), started, 0},
		}},
		{"allow is now or not", ten(inf), []moment{
			{0, allow(8), started, 0},
			{0, allow(3), refused, .1}, // no hold
			{0, allow(2), started, 0},
			{.1, allow(2), refused, .1},
			{.2, allow(2), started, 0},
			{.2, start(10), reserved, 1},
			{.2, allow(0), refused, 1}, // promised tokens stay
			{.2, start(1), reserved, 1.1},
		}},
		{"above the capacity a full bucket starts it and owes", limitOf(perSecond("tokens", 10, 10, 20)), []moment{
			{0, start(30), started, 0},
			{0, start(5), waiting, 2.5},
			{2, promoted(1), started, .1},
		}},
		{"above the capacity waits for a full bucket", ten(inf), []moment{
			{0, start(5), started, 0},
			{0, start(15), reserved, .5},
			{0, start(1), reserved, 1.1},
			{.25, holder(15), started, .25},
			{.25, start(1), reserved, .95},
			{1, holder(1), started, .1},
		}},
		{"a huge wait is bounded", limitOf(reservations.Meter{
			Name: "tokens", Rate: 1e-9, Period: time.Hour, Capacity: 1,
		}), []moment{
			{0, start(1e12), started, 0},
			{0, start(1), reserved, bucket.MaxWait.Seconds()},
			{0, holder(1), waiting, bucket.MaxWait.Seconds()},
		}},
		{"a settlement gives to the next one", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, settle(6), settled, 0},
			{0, start(6), started, 0},
			{0, settle(-6), settled, 0},
			{0, start(1), reserved, .7},
		}},
		{"a settlement never fills above the capacity", ten(inf), []moment{
			{0, settle(100), settled, 0},
			{0, start(10), started, 0},
			{0, start(1), started, .1},
		}},
		{"a release lets new tasks reserve earlier, and start none", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, reserve(10), reserved, 1},
			{0, reserve(10), reserved, 2},
			{0, release(10), settled, 0},
			{0, start(10), reserved, 2},
			{0, release(10), settled, 0},
			{0, release(10), settled, 0},
			{0, release(10), settled, 0}, // once too often
			{0, start(3), reserved, .3},
		}},
		{"nothing starts during a block", ten(inf), []moment{
			{0, reserve(5), reserved, 0},
			{0, block(2), settled, 2},
			{0, start(0), reserved, 2},
			{0, urgent(0), reserved, 2},
			{0, allow(0), refused, 2},
			{1, holder(0), waiting, 1},
			{1.75, holder(0), started, .25},
			{1.8, settle(10), settled, 0},
			{1.8, promoted(1), started, .2},
			{2, holder(5), started, 0},
		}},
		{"after a block the bucket is empty", ten(inf), []moment{
			{0, block(2), settled, 2},
			{2, start(1), started, .1},
			{2, start(5), reserved, .6},
		}},
		{"a block delays what is promised", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, start(5), reserved, .5},
			{0, block(2), settled, 2},
			{0, start(5), reserved, 3},
			{2.5, holder(5), started, 0},
			{3, holder(5), started, 0},
		}},
		{"a block inside another changes nothing", ten(inf), []moment{
			{0, block(5), settled, 5},
			{1, block(2), settled, 4},
			{1, block(0), settled, 4},
			{1, block(-1), settled, 4},
			{5, start(1), started, .1},
		}},
		{"a block after another makes it longer", ten(inf), []moment{
			{0, block(5), settled, 5},
			{4, block(5), settled, 5},
			{8, start(1), reserved, 1.1},
		}},
		{"a block of no length", ten(inf), []moment{
			{0, block(0), settled, 0},
			{0, start(10), started, 0},
		}},
		{"max_block bounds a block", func() reservations.Limit {
			l := ten(inf)
			l.MaxBlock = 3 * time.Second
			return l
		}(), []moment{
			{0, block(1000), settled, 3},
			{1, block(1000), settled, 3},
		}},
		{"a block lasts ten minutes at most where nothing is said", ten(inf), []moment{
			{0, block(86400), settled, 600},
		}},
		{"an unblock lets tasks start as tokens come back", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, reserve(5), reserved, .5},
			{0, block(500), settled, 500},
			{1, unblock(), settled, 0},
			{1, unblock(), settled, 0},
			{1, holder(2.5), started, .25},
			{1, promoted(5), waiting, .75},
		}},
		{"urgent tasks use the headroom and do not look at promises", withHeadroom(ten(inf), 4), []moment{
			{0, start(6), started, 0},
			{0, start(1), started, .1},
			{0, start(5), reserved, .6},
			{0, allow(1), refused, .7},
			{0, urgent(3), started, 0},
			{0, urgent(2), started, .2},
			{0, bucket.Request{Op: bucket.OpAllow, Tokens: []float64{1}, Urgent: true}, refused, .3},
			{.6, holder(5), waiting, .5},
			{1.1, holder(5), started, 0},
		}},
		{"without headroom urgent tasks are ordinary ones", ten(inf), []moment{
			{0, start(10), started, 0},
			{0, reserve(10), reserved, 1},
			{1, urgent(5), reserved, .5},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			life(t, c.limit, c.moments)
		})
	}
}

func withHeadroom(l reservations.Limit, tokens float64) reservations.Limit {
	for k, m := range l.Meters {
		if m.Kind != reservations.KindWindow {
			l.Meters[k].Headroom = tokens
		}
	}
	return l
}

// A task waits for the meter that has room last, and is charged in all of them.
func TestStepSeveralMeters(t *testing.T) {
	t.Parallel()
	life(t, limitOf(perSecond("requests", 1, 2, inf), perSecond("tokens", 100, 100, inf)), []moment{
		{0, start(1, 100), started, 0},
		{0, start(1, 50), reserved, .5},
		{0, start(1, 10), reserved, 1},
		{.5, holder(1, 50), started, 0},
		{1, holder(1, 10), started, 0},
		{1, start(0, 100), reserved, .6},
	})
}

// What comes back above the capacity until a task starts is lost to that meter.
func TestStepWaitsForAnotherMeter(t *testing.T) {
	t.Parallel()
	b := life(t, limitOf(perSecond("requests", 10, 1, inf), perSecond("tokens", 10, 10, inf)), []moment{
		{0, start(1, 0), started, 0},
		{0, start(1, 6), started, .1},
		{.1, refresh(), settled, 0},
	})
	near(t, balances(b), 0, 0, 4, 4)
}

// A limit may have both kinds of meters, and headroom in one of them.
func TestStepHeadroomBesideWindow(t *testing.T) {
	t.Parallel()
	l := withHeadroom(limitOf(perSecond("tokens", 10, 10, inf), window("daily", 20, 0, 60, inf)), 4)
	life(t, l, []moment{
		{0, start(6, 1), started, 0},
		{0, start(1, 1), started, .1},
		{0, urgent(3, 1), started, 0},
		{1, urgent(1, 17), started, 0},
		{1, urgent(1, 1), reserved, 59},
	})
	life(t, l, []moment{
		{0, start(6, 20), started, 0},
		{59.9, urgent(10, 1), started, .1},
		{60, start(1, 1), reserved, .5},
		{60, urgent(1, 1), started, .1},
	})
}
