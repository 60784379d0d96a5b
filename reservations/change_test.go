package reservations_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// turn is a request by a caller with a limit of its own.
type turn struct {
	at    float64
	limit reservations.Limit
	r     bucket.Request
	want  []float64 // started and reserved of each meter
}

func TestStepLimitsChange(t *testing.T) {
	t.Parallel()
	meter := func(rate, capacity float64) reservations.Limit {
		return limitOf(perSecond("tokens", rate, capacity, inf))
	}
	day := func(rate, capacity, seconds float64) reservations.Limit {
		return limitOf(window("tokens", rate, capacity, seconds, inf))
	}
	for _, c := range []struct {
		name  string
		turns []turn
	}{
		{"tokens stay tokens when the rate changes", []turn{
			{0, meter(10, 100), reserve(130), []float64{100, -30}},
			{0, meter(50, 100), refresh(), []float64{100, -30}},
			{0, meter(1, 100), refresh(), []float64{100, -30}},
		}},
		{"a lower capacity cuts both balances", []turn{
			{0, meter(10, 100), reserve(20), []float64{100, 80}},
			{0, meter(10, 50), refresh(), []float64{50, 50}},
			{0, meter(10, 100), refresh(), []float64{50, 50}},
			{1, meter(10, 100), refresh(), []float64{60, 60}},
		}},
		{"the lower rate counts for the time of a change", []turn{
			{0, meter(10, 100), start(100), []float64{0, 0}},
			{1, meter(50, 100), refresh(), []float64{10, 10}},
			{2, meter(50, 100), refresh(), []float64{60, 60}},
			{2, meter(50, 100), start(60), []float64{0, 0}},
			{3, meter(10, 100), refresh(), []float64{10, 10}},
			{4, meter(10, 100), refresh(), []float64{20, 20}},
		}},
		{"two callers with two limits", []turn{
			{0, meter(10, 100), start(50), []float64{50, 50}},
			{1, meter(20, 40), refresh(), []float64{40, 40}},
			{2, meter(10, 100), refresh(), []float64{40, 40}},
			{2, meter(10, 100), start(40), []float64{0, 0}},
			{3, meter(20, 40), refresh(), []float64{10, 10}},
			{4, meter(10, 100), refresh(), []float64{20, 20}},
		}},
		{"a window becomes a token bucket, and back", []turn{
			{59, day(10, 0, 60), start(10), []float64{0, 0}},
			{61, meter(1, 10), refresh(), []float64{2, 2}},
			{63, meter(1, 10), refresh(), []float64{4, 4}},
			{65, day(10, 0, 60), refresh(), []float64{4, 4}},
			{120, day(10, 0, 60), refresh(), []float64{10, 10}},
		}},
		{"a window of another rate", []turn{
			{59, day(10, 0, 60), start(10), []float64{0, 0}},
			{61, day(4, 0, 60), refresh(), []float64{4, 4}},
			{61, day(10, 0, 60), refresh(), []float64{4, 4}},
		}},
		{"a window of another period", []turn{
			{59, day(10, 40, 60), start(40), []float64{0, 0}},
			{121, day(10, 40, 120), refresh(), []float64{10, 10}},
		}},
		{"during a block", []turn{
			{0, meter(10, 100), start(50), []float64{50, 50}},
			{0, meter(10, 100), block(10), []float64{0, 0}},
			{5, meter(50, 100), refresh(), []float64{0, 0}},
			{11, meter(50, 100), refresh(), []float64{50, 50}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b bucket.Bucket
			for i, turn := range c.turns {
				changed := i > 0 && (!b.Follows(bucket.Rules(turn.limit)) || turn.r.Op != bucket.OpRefresh)
				next, o := bucket.Step(b, bucket.Rules(turn.limit), clock(turn.at), turn.r)
				if near(t, balances(next), turn.want...); !next.Follows(bucket.Rules(turn.limit)) {
					t.Errorf("turn %d: %+v does not follow", i, next)
				}
				if i > 0 && (next.Version > b.Version) != changed {
					t.Errorf("turn %d: version %d after %d, answer %+v", i, next.Version, b.Version, o)
				}
				b = next
			}
		})
	}
}

// A meter that is new to the bucket is full. One that the limit lacks is kept until it is full, so that two callers
// with different meters both keep their limits.
func TestStepMetersComeAndGo(t *testing.T) {
	t.Parallel()
	a, b := perSecond("a", 1, 10, inf), perSecond("b", 1, 10, inf)
	onlyA, onlyB, both, turned := limitOf(a), limitOf(b), limitOf(a, b), limitOf(b, a)
	var got bucket.Bucket
	for i, c := range []struct {
		at     float64
		limit  reservations.Limit
		r      bucket.Request
		want   []float64
		meters []string
	}{
		{0, onlyA, start(8), []float64{2, 2}, []string{"a"}},
		{0, onlyB, start(3), []float64{7, 7, 2, 2}, []string{"b", "a"}},
		{1, both, refresh(), []float64{3, 3, 8, 8}, []string{"a", "b"}},
		{1, turned, start(8, 3), []float64{0, 0, 0, 0}, []string{"b", "a"}},
		{2, onlyA, start(1), []float64{0, 0, 1, 1}, []string{"a", "b"}},
		{2, onlyA, block(3), []float64{0, 0, 0, 0}, []string{"a", "b"}}, // of all meters
		{6, onlyB, refresh(), []float64{1, 1, 1, 1}, []string{"b", "a"}},
		{14, onlyB, start(9), []float64{0, 0, 9, 9}, []string{"b", "a"}},
		{15, onlyB, refresh(), []float64{1, 1}, []string{"b"}}, // the other one is full
		{15, both, refresh(), []float64{10, 10, 1, 1}, []string{"a", "b"}},
	} {
		version := got.Version
		got, _ = bucket.Step(got, bucket.Rules(c.limit), clock(c.at), c.r)
		near(t, balances(got), c.want...)
		var meters []string
		for _, m := range got.Meters {
			meters = append(meters, m.Name)
		}
		if diff := cmp.Diff(c.meters, meters); diff != "" || got.Version != version+1 {
			t.Errorf("turn %d: version %d after %d\n%s", i, got.Version, version, diff)
		}
	}
}

// Limits that change all the time leave at most 16 meters behind.
func TestStepMetersAreBounded(t *testing.T) {
	t.Parallel()
	var b bucket.Bucket
	for i := range 100 {
		b, _ = bucket.Step(b, bucket.Rules(limitOf(perSecond("m"+string(rune('0'+i)), 1, 10, inf))), clock(0), start(10))
	}
	if len(b.Meters) != 17 {
		t.Errorf("%d meters", len(b.Meters))
	}
}
