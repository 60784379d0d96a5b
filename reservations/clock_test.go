package reservations_test

import (
	"testing"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

func TestStepClockRunsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		limit   reservations.Limit
		moments []moment
	}{
		{"by a minute: nothing changes", ten(inf), []moment{
			{100, start(10), started, 0},
			{40, start(5), reserved, .5}, // decided at 100
			{100.5, holder(5), started, 0},
		}},
		{"by more: it is followed, and nothing comes back", ten(inf), []moment{
			{100, start(10), started, 0},
			{39.9, start(5), reserved, .5}, // decided at 39.9
			{40.4, holder(5), started, 0},
			{40.4, start(1), started, .1},
		}},
		{"a refused task is enough to follow it", ten(inf), []moment{
			{100, start(10), started, 0},
			{30, promoted(5), waiting, .5},
			{30.5, promoted(5), started, 0},
		}},
		{"a block in force stays as long", ten(inf), []moment{
			{100, block(30), settled, 30},
			{110, start(1), reserved, 20.1},
			{20, promoted(1), waiting, 20.1},
			{40.1, holder(1), started, 0},
		}},
		{"a block that has ended does not come back", ten(inf), []moment{
			{100, block(1), settled, 1},
			{105, start(1), started, 0},
			{35, start(1), started, 0},
		}},
		{"a window that ended ends again", limitOf(window("w", 10, 0, 60, inf)), []moment{
			{59, start(10), started, 0},
			{61, start(10), started, 0},
			{0.5, start(1), reserved, 59.5},
			{60, holder(1), started, 0},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			life(t, c.limit, c.moments)
		})
	}
}

// A store writes what has another version: a clock that is followed has to be written, or each request would follow it
// again.
func TestStepWritesTheClockThatRanBack(t *testing.T) {
	t.Parallel()
	b := bucketOf(-100, -100)
	for _, c := range []struct {
		at     float64
		r      bucket.Request
		stored float64
		more   int64
	}{
		{101, promoted(1), 101, 0},
		{50, promoted(1), 100, 0}, // jitter
		{20, dry(promoted(1)), 20, 0},
		{20, promoted(1), 20, 1},
	} {
		got, _ := bucket.Step(b, bucket.Rules(ten(inf)), clock(c.at), c.r)
		if !got.At.Equal(clock(c.stored)) || got.Version != b.Version+c.more {
			t.Errorf("at %v: %+v", c.at, got)
		}
	}
}
