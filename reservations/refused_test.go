package reservations_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// refusal is one step in the history of a bucket whose provider refuses calls.
type refusal struct {
	at      float64
	request bucket.Request
	// state is the answer, and the bucket is blocked from then on for least to most seconds.
	state       bucket.State
	least, most float64
}

// refuse is a refusal of a call that was granted at began; after is the time that it names, in seconds.
func refuse(by int64, began, after float64) bucket.Request {
	return bucket.Request{
		Op: bucket.OpRefuse, By: by, Began: clock(began), For: time.Duration(after * float64(time.Second)),
		Tokens: []float64{1},
	}
}

func refuseFor(why bucket.Reason, began float64) bucket.Request {
	r := refuse(1, began, 0)
	r.Reason = why
	return r
}

// good is a good answer to a call that was granted at began.
func good(by int64, began float64) bucket.Request {
	return bucket.Request{Op: bucket.OpAnswered, By: by, Began: clock(began)}
}

// What refusals and good answers make of a bucket of 10 a second, with a max_block of 100 s.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]refusal{
		"pauses without a time grow": {
			{0, refuse(1, 0, 0), settled, 1, 1.5},
			{2, refuse(1, 1.9, 0), settled, 2, 3},
			{6, refuse(1, 5.9, 0), settled, 4, 6},
			{20, refuse(1, 19.9, 0), settled, 8, 12},
		},
		"calls that were under way are the same refusal": {
			{0, refuse(1, -1, 0), settled, 1, 1.5},
			{.9, refuse(2, -.5, 0), settled, 0.1, .6},
			{2, refuse(3, -.1, 0), settled, 0, 0},
			{2.1, refuse(3, 0, 0), settled, 0, 0},
			{3, refuse(3, 2.5, 0), settled, 2, 3},
		},
		"a named time counts as it is": {
			{0, refuse(1, -1, 30), settled, 30, 30},
			{1, refuse(2, -.5, 20), settled, 29, 29},
			{2, refuse(3, -.5, 35), settled, 35, 35}, // under way, and it names a later end
		},
		"a good answer ends a pause": {
			{0, refuse(1, -1, 0), settled, 1, 1.5},
			{2, refuse(1, 1.9, 0), settled, 2, 3},
			{2.5, good(2, 2.2), settled, 0, 0},
			{3, refuse(1, 2.9, 0), settled, 1, 1.5},
		},
		"a good answer to a call from before the refusals says nothing": {
			{0, refuse(1, -1, 0), settled, 1, 1.5},
			{.5, good(2, -.5), settled, .5, 1},
			{2, refuse(1, 1.9, 0), settled, 2, 3},
		},
		"a good answer to a call from between them leaves the pause": {
			{0, refuse(1, -1, 0), settled, 1, 1.5},
			{2, refuse(1, 1.9, 0), settled, 2, 3},
			{2.5, good(2, 1.8), settled, 1.5, 2.5},
			{8, refuse(1, 7.9, 0), settled, 1, 1.5},
		},
		"a good answer leaves a block that the provider named": {
			{0, refuse(1, -1, 30), settled, 30, 30},
			{1, good(2, .5), settled, 29, 29},
		},
		"starts are apart until an answer is good": {
			{0, refuse(1, -1, 0), settled, 1, 1.5},
			{2, refuse(1, 1.9, 0), settled, 2, 3},
			{6, start(1), started, 2, 2},
			{6.1, promoted(1), waiting, 1.9, 1.9},
			{8, start(1), started, 2, 2},
			{8.5, good(2, 8), settled, 0, 0},
			{9, start(1), started, 0, 0},
			{9, start(1), started, 0, 0},
		},
		"after one refusal they soon are not": {
			{0, refuse(1, -1, 0), settled, 1, 1.5},
			{2, start(1), started, 1, 1},
			{3, start(1), started, .5, .5},
			{3.5, start(1), started, .25, .25},
			{3.8, start(1), started, .125, .125},
			{4, start(1), started, .0625, .0625},
			{5, start(1), started, 0, 0},
		},
		"one caller stops the bucket for max_block": {
			{0, refuse(1, -1, 60), settled, 60, 60},
			{61, refuse(1, 60, 60), settled, 40, 40},
			{102, refuse(1, 101, 60), refused, 0, 0},
		},
		"of several callers each has half of that": {
			{0, refuse(1, -1, 1000), settled, 100, 100},
			{101, refuse(2, 100.5, 1000), settled, 50, 50},
			{152, refuse(3, 151, 1000), settled, 25, 25},
			{178, refuse(4, 177, 1000), settled, 12.5, 12.5},
			{191, refuse(1, 190.8, 1000), refused, 0, 0},
		},
		"a good answer of another one does not count for it": {
			{0, refuse(1, -1, 1000), settled, 100, 100},
			{101, good(2, 100.5), settled, 0, 0},
			{102, refuse(1, 101, 1000), refused, 0, 0},
			{102, refuse(3, 101, 1000), settled, 50, 50},
		},
		"its own does": {
			{0, refuse(1, -1, 1000), settled, 100, 100},
			{101, good(1, 100.5), settled, 0, 0},
			{102, refuse(1, 101.5, 1000), settled, 100, 100},
		},
		"beyond that a bucket pauses where nothing is good": {
			{0, refuse(1, -1, 1000), settled, 100, 100},
			{101, refuse(2, 100.5, 1000), settled, 50, 50},
			{152, refuse(2, 151, 1000), refused, 0, 0},
			{301, refuse(2, 300, 1000), waiting, 4, 6},
			{310, refuse(2, 309, 1000), waiting, 8, 12},
		},
		"a quota": {
			{0, refuseFor(bucket.ReasonQuota, -1), settled, 15, 22.5},
			{30, refuseFor(bucket.ReasonQuota, 29), waiting, 30, 45},
			{80, refuseFor(bucket.ReasonQuota, 79), waiting, 60, 90},
			{180, refuseFor(bucket.ReasonQuota, 179), waiting, 100, 100},
			{290, start(1), started, 100, 100},
			{291, good(1, 290), settled, 0, 0},
		},
		"a key that others do not have": {
			{0, refuseFor(bucket.ReasonKey, -1), settled, 15, 22.5},
			{30, good(2, 29), settled, 0, 0},
			{31, refuseFor(bucket.ReasonKey, 30.5), refused, 0, 0},
			{80, good(2, 79), settled, 0, 0},
			{120, refuseFor(bucket.ReasonKey, 119), refused, 0, 0},
			{200, refuseFor(bucket.ReasonKey, 199), settled, 15, 22.5},
		},
		"unblock ends the row, and forgives no caller": {
			{0, refuse(1, -1, 1000), settled, 100, 100},
			{1, unblock(), settled, 0, 0},
			{2, refuse(1, 1.5, 1000), refused, 0, 0},
			{2, refuse(3, 1.5, 1000), settled, 50, 50},
		},
		"short refusals are forgotten after ten minutes": {
			{0, refuse(1, -1, 20), settled, 20, 20},
			{21, good(2, 20.5), settled, 0, 0},
			{590, refuse(1, 589, 1000), settled, 80, 80},
			{2591, refuse(1, 2590, 1000), settled, 100, 100},
		},
		"long ones after twenty times as long": {
			{0, refuse(1, -1, 1000), settled, 100, 100},
			{101, good(2, 100.5), settled, 0, 0},
			{702, refuse(1, 701, 1000), refused, 0, 0},
			{1900, good(2, 1899), settled, 0, 0},
			{1990, refuse(1, 1989, 1000), refused, 0, 0},
			{2001, refuse(1, 2000, 1000), settled, 100, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := ten(0)
			limit.MaxBlock = 100 * time.Second
			b, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(limit), clock(-2), start(0))
			for i, s := range steps {
				var o bucket.Answer
				b, o = bucket.Step(b, bucket.Rules(limit), clock(s.at), s.request)
				blocked := max(0, b.Blocked.Sub(b.At).Seconds())
				if o.State != s.state || blocked < s.least-1e-6 || blocked > s.most+1e-6 {
					t.Fatalf("step %d: %s, blocked for %v; want %s, %v to %v", i, o.State, blocked, s.state, s.least, s.most)
				}
			}
		})
	}
}

// An unblock gives back what headers took, as far as it has not come back, and nothing that started.
func TestUnblockLiftsWhatHeadersTook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit reservations.Limit
		steps []refusal
		want  float64
	}{
		"a window": {limitOf(window("tokens", 100, 100, 3600, 0)), []refusal{
			{at: 1, request: start(10)}, {at: 2, request: synced(0, 0)}, {at: 3, request: unblock()},
		}, 90},
		"again": {limitOf(window("tokens", 100, 100, 3600, 0)), []refusal{
			{at: 1, request: synced(0, 40)},
			{at: 2, request: synced(0, 0)},
			{at: 3, request: unblock()},
			{at: 4, request: unblock()},
		}, 100},
		"a start after it": {limitOf(window("tokens", 100, 100, 3600, 0)), []refusal{
			{at: 1, request: synced(0, 40)}, {at: 2, request: start(30)}, {at: 3, request: unblock()},
		}, 70},
		"what came back is not there twice": {ten(0), []refusal{
			{at: 1, request: synced(0, 0)}, {at: 1.5, request: start(5)}, {at: 1.6, request: unblock()},
		}, 6},
		"it is full again": {ten(0), []refusal{
			{at: 1, request: synced(0, 0)}, {at: 3, request: start(5)}, {at: 3, request: unblock()},
		}, 5},
		"a block": {ten(0), []refusal{
			{at: 1, request: synced(0, 2)}, {at: 1, request: block(60)}, {at: 1, request: unblock()},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bucket.Bucket
			for _, s := range append([]refusal{{at: 0, request: start(0)}}, c.steps...) {
				b, _ = bucket.Step(b, bucket.Rules(c.limit), clock(s.at), s.request)
			}
			if got := b.Meters[0]; got.Started-c.want > 1e-6 || c.want-got.Started > 1e-6 || got.Reserved > got.Started {
				t.Errorf("%+v, want %v", got, c.want)
			}
		})
	}
}

// Near the rate of the last refusal, the size of the refused call says how slowly the rate of an adaptive meter climbs.
// It takes the time of 50 such calls, and at least 20 s if the refusal named no time. Far above, it climbs by its ramp.
func TestRefusalsSlowTheClimb(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, after, rate float64 // the rate 10 s after a refusal at 10 a second
	}{
		{1, 1, 7 + 9*.6},          // 3 a second in 5 s.
		{10, 1, 7 + 9*.06},        // in 50 s
		{1, 0, 7 + 9*.15},         // in 20 s
		{0, 1, 7 + 9*10},          // the size is not known
		{.01, 1, 7 + 9*10},        // the ramp is slower
		{.2, 1, 15 + (9-8/3.)*10}, // in 1 s, up to 15 a second
	} {
		m := perSecond("tokens", 1, 10, 0)
		m.Adaptive = reservations.Adaptive{Max: 1001, Ramp: 100 * time.Second}
		rules := bucket.Rules(limitOf(m))
		b, _ := bucket.Step(bucket.Bucket{}, rules, clock(0), start(10))
		b.Meters[0].Filling.Rate = 10
		r := refuse(1, -1, c.after)
		if r.Tokens[0] = c.size; c.size == 0 {
			r.Tokens = nil
		}
		b, _ = bucket.Step(b, rules, clock(0), r)
		b.Blocked = clock(1) // whatever the pause is
		b.Meters[0].Started = -1e6
		b = b.Accrue(rules, clock(5)).Accrue(rules, clock(10))
		if got := b.Meters[0].Filling.Rate; fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", c.rate) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
