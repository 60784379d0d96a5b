package reservations_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// calls is a limit of calls in flight alone.
func calls(n int) reservations.Limit { return limitOf(reservations.InFlight(n)) }

// leased is a start of one call, or of what n says, with a lease of 25 s.
func leased(id int64, n ...float64) bucket.Request {
	if n == nil {
		n = []float64{1}
	}
	return bucket.Request{Op: bucket.OpStart, Tokens: n, Lease: id, For: 25 * time.Second}
}

func renewed(id int64) bucket.Request {
	return bucket.Request{Op: bucket.OpRenew, Lease: id, For: 25 * time.Second}
}

func endOf(id int64) bucket.Request {
	return bucket.Request{Op: bucket.OpSettle, Tokens: []float64{0}, Lease: id}
}

func TestCallsInFlight(t *testing.T) {
	t.Parallel()
	type step struct {
		at    float64
		r     bucket.Request
		state bucket.State
		wait  float64 // of the answer, in seconds
		left  float64 // slots that are free afterwards
	}
	alone := func(r bucket.Request) bucket.Request {
		r.Promoted = true
		return r
	}
	allowed := func(r bucket.Request) bucket.Request {
		r.Op = bucket.OpAllow
		return r
	}
	for _, c := range []struct {
		name  string
		limit reservations.Limit
		steps []step
	}{
		{"a slot is back when its call ends", calls(2), []step{
			{0, leased(1), started, 0, 1},
			{0, leased(2), started, 0, 0},
			{1, leased(3), waiting, 24, 0},
			{2, endOf(1), settled, 0, 1},
			{2, leased(3), started, 0, 0},
		}},
		{"and only once", calls(2), []step{
			{0, leased(1), started, 0, 1},
			{0, leased(2), started, 0, 0},
			{1, endOf(1), settled, 0, 1},
			{1, endOf(1), settled, 0, 1},
			{2, endOf(7), settled, 0, 1},
		}},
		{"a lease that is not renewed ends, rounded up to a second", calls(1), []step{
			{.2, leased(1), started, 0, 0},
			{25.9, leased(2), waiting, .251, 0},
			{26, leased(2), started, 0, 0},
			{27, endOf(1), settled, 0, 0},
			{27, renewed(1), refused, 0, 0},
		}},
		{"a renewed one lasts", calls(1), []step{
			{0, leased(1), started, 0, 0},
			{20, renewed(1), settled, 0, 0},
			{44, leased(2), waiting, 1, 0},
			{45, leased(2), started, 0, 0},
		}},
		{"no task holds for a slot, and none is promised", calls(1), []step{
			{0, leased(1), started, 0, 0},
			{24.9, leased(2), waiting, .251, 0},
			{24.9, alone(leased(2)), waiting, .251, 0},
			{24.9, allowed(leased(2)), refused, .251, 0},
			{24.9, bucket.Request{Op: bucket.OpReserve, Tokens: []float64{1}}, waiting, .251, 0},
		}},
		{"a start that asks again has one lease", calls(1), []step{
			{0, leased(1), started, 0, 0},
			{1, alone(leased(1)), started, 0, 0},
			{1, endOf(1), settled, 0, 1},
		}},
		{"a call of several slots", calls(5), []step{
			{0, leased(1, 3), started, 0, 2},
			{0, leased(2, 0), started, 0, 2},
			{1, leased(3, 3), waiting, 24, 2},
			{1, leased(4, 2), started, 0, 0},
			{2, endOf(1), settled, 0, 3},
		}},
		{"a block keeps calls that run", calls(2), []step{
			{0, leased(1), started, 0, 1},
			{0, block(10), settled, 10, 1},
			{1, endOf(1), settled, 0, 2},
			{1, leased(2), reserved, 9, 2},
			{1, unblock(), settled, 0, 2},
		}},
		{"a provider's balance and a release say nothing of calls", calls(3), []step{
			{0, leased(1), started, 0, 2},
			{0, up(synced(0, 3)), settled, 0, 2},
			{0, release(2), settled, 0, 2},
			{0, settle(2), settled, 0, 2},
		}},
		{"a clock that runs back a little", calls(1), []step{
			{60, leased(1), started, 0, 0},
			{30, leased(2), waiting, 25, 0},
			{84, leased(2), waiting, 1, 0},
		}},
		{"a clock that runs back far", calls(1), []step{
			{6000, leased(1), started, 0, 0},
			{10, leased(2), waiting, 25, 0},
			{35, leased(2), started, 0, 0},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b bucket.Bucket
			for i, s := range c.steps {
				var o bucket.Answer
				b, o = bucket.Step(b, bucket.Rules(c.limit), clock(s.at), s.r)
				if o.State != s.state || o.Wait().Round(time.Millisecond).Seconds() != s.wait || b.Meters[0].Started != s.left {
					t.Errorf("step %d, %+v: %s, wait %v, %v left; want %s, %v, %v",
						i, s.r, o.State, o.Wait(), b.Meters[0].Started, s.state, s.wait, s.left)
				}
				wellFormed(t, bucket.Rules(c.limit), b)
			}
		})
	}
}

// A task that is short of tokens alone is promised them, and one that is short of slots alone is not.
func TestCallsInFlightBesideTokens(t *testing.T) {
	t.Parallel()
	limit := limitOf(perSecond("tokens", 10, 10, inf), reservations.InFlight(2))
	b, o := bucket.Fold(bucket.Bucket{}, bucket.Rules(limit), clock(0), []bucket.Request{
		leased(1, 10, 1), leased(2, 10, 1), endOf(1), leased(3, 12, 1),
	})
	if o[1].State != reserved || o[1].Wait() != time.Second || b.Meters[1].Reserved != 2 {
		t.Errorf("short of tokens: %s, wait %v, %+v", o[1].State, o[1].Wait(), b.Meters)
	}
	b, _ = bucket.Fold(b, bucket.Rules(limit), clock(10), []bucket.Request{leased(4, 1, 1), leased(5, 1, 1)})
	b, short := bucket.Step(b, bucket.Rules(limit), clock(10), leased(6, 1, 1))
	if short.State != waiting || b.Meters[0].Started != b.Meters[0].Reserved {
		t.Errorf("short of slots: %s, %+v", short.State, b.Meters)
	}
	b, _ = bucket.Step(b, bucket.Rules(limit), clock(10), endOf(4))
	b, held := bucket.Step(b, bucket.Rules(limit), clock(10), leased(7, 9, 1))
	if held.Hold != 100*time.Millisecond || b.Meters[1].Started != 0 {
		t.Errorf("a start that holds for tokens has its slot: hold %v, %+v", held.Hold, b.Meters)
	}
}

// The lower number of calls counts at once, and calls that run go on.
func TestCallsInFlightChange(t *testing.T) {
	t.Parallel()
	b, _ := bucket.Fold(bucket.Bucket{}, bucket.Rules(calls(3)), clock(0), []bucket.Request{leased(1), leased(2)})
	b, o := bucket.Step(b, bucket.Rules(calls(1)), clock(1), leased(3))
	if o.State != waiting || b.Meters[0].Started != -1 {
		t.Errorf("of 1 call with 2 that run: %s, %+v", o.State, b.Meters)
	}
	b, _ = bucket.Step(b, bucket.Rules(ten(0)), clock(2), start(1)) // the limit has no calls in flight any more
	b, o = bucket.Step(b, bucket.Rules(ten(0)), clock(3), renewed(1))
	if o.State != settled {
		t.Errorf("a renewal in a limit without calls in flight: %s", o.State)
	}
	b, o = bucket.Step(b, bucket.Rules(calls(3)), clock(4), leased(3))
	if !o.Started() || b.Meters[0].Started != 0 {
		t.Errorf("of 3 calls with 2 that run: %s, %+v", o.State, b.Meters)
	}
	if full := b.FullAt(); !full.Equal(clock(29)) {
		t.Errorf("full at %v", full)
	}
}

// The dispatcher's copy of a bucket has no IDs and plans as the bucket does.
func TestCallsInFlightPlan(t *testing.T) {
	t.Parallel()
	b, _ := bucket.Fold(bucket.Bucket{}, bucket.Rules(calls(5)), clock(0), []bucket.Request{
		leased(1), leased(2), leased(3),
	})
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"ID"`) || strings.Count(string(text), "until") != 1 {
		t.Errorf("the dispatcher gets %s", text)
	}
	var copied bucket.Bucket
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	asks := []bucket.Ask{{}, {Tokens: reservations.Tokens{"in_flight": 1}}, {}, {}}
	want := []time.Time{clock(1), clock(1), clock(25)}
	for _, of := range []bucket.Bucket{b, copied} {
		if diff := cmp.Diff(want, of.Plan(clock(1), asks, clock(2))); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	}
	if at := b.Expect(clock(1), reservations.Tokens{"in_flight": 3}); !at.IsZero() {
		t.Errorf("a third call is expected at %v", at)
	}
	if at := b.Expect(clock(1), reservations.Tokens{"in_flight": 2}); !at.Equal(clock(1)) {
		t.Errorf("a second call is expected at %v", at)
	}
}

func TestCallsInFlightValidate(t *testing.T) {
	t.Parallel()
	meter := func(change func(*reservations.Meter)) reservations.Limit {
		m := reservations.InFlight(20)
		change(&m)
		return limitOf(m)
	}
	sharded := calls(10)
	sharded.Shards = 4
	for name, c := range map[string]struct {
		limit reservations.Limit
		fault string
	}{
		"good":      {calls(20), ""},
		"most":      {calls(1000), ""},
		"zero":      {calls(0), "in_flight: 0 must be a whole number of calls, from 1 to 1000"},
		"negative":  {calls(-1), "in_flight: -1 must be"},
		"too many":  {calls(1001), "in_flight: 1001 must be"},
		"a half":    {meter(func(m *reservations.Meter) { m.Capacity = 1.5 }), "in_flight: 1.5 must be"},
		"a rate":    {meter(func(m *reservations.Meter) { m.Rate = 1 }), "in_flight: has a capacity alone"},
		"a name":    {meter(func(m *reservations.Meter) { m.Name = "calls" }), "calls.kind: "},
		"no kind":   {limitOf(reservations.PerSecond("in_flight", 1)), "in_flight.kind: "},
		"two":       {limitOf(reservations.InFlight(1), reservations.InFlight(2)), "is there twice"},
		"shards":    {sharded, "shards: 4 must divide the 10 calls in flight evenly"},
		"beside":    {limitOf(reservations.InFlight(1), perSecond("tokens", 1, 1, 0)), ""},
		"max_block": {func() reservations.Limit { l := calls(1); l.MaxBlock = time.Hour; return l }(), ""},
	} {
		err := c.limit.Validate()
		if (err == nil) != (c.fault == "") || err != nil &&
			(!strings.Contains(err.Error(), c.fault) || !errors.Is(err, reservations.ErrInvalidLimit)) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
	limiter, err := reservations.New(reservations.NoStore(), []reservations.Limit{calls(20)}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = inside.Of(limiter).SetOverrides([]reservations.Override{
		{Limit: "fleet", Meter: "in_flight", Rate: 1, Period: time.Second},
	})
	if !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Errorf("an override: %v", err)
	}
	tooMany := reservations.Charge{Limit: "fleet", Tokens: reservations.Tokens{"in_flight": 21}}
	if err := limiter.Validate(tooMany); !errors.Is(err, reservations.ErrChargeTooLarge) {
		t.Errorf("21 of 20: %v", err)
	}
}
