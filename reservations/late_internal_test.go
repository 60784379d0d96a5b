package reservations

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

func TestPunctuality(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	type start struct {
		at, late time.Duration
		stale    bool
	}
	for name, starts := range map[string][]start{
		"in time":               {{0, 0, false}, {ms, 50 * ms, false}},
		"the first is too late": {{0, 51 * ms, true}, {60 * ms, 0, false}},
		"a machine suspended still": {
			{0, ms, false},
			{900 * ms, 200 * ms, true},
			{901 * ms, 190 * ms, true},
			{950 * ms, 150 * ms, true},
			{1100 * ms, 60 * ms, true},
			{1200 * ms, ms, false},
		},
		"always late": {
			{0, 80 * ms, true},
			{100 * ms, 90 * ms, true},
			{1000 * ms, 85 * ms, false},
			{1500 * ms, 130 * ms, false},
			{1600 * ms, 131 * ms, true},
		},
		"late no more": {
			{0, 80 * ms, true},
			{1000 * ms, 80 * ms, false},
			{1100 * ms, ms, false},
			{2100 * ms, 60 * ms, true},
		},
		"one in a while": {
			{0, ms, false},
			{time.Hour, 200 * ms, true},
			{time.Hour + 300*ms, ms, false},
			{2 * time.Hour, 200 * ms, true},
		},
		"always, in a while":     {{0, 80 * ms, true}, {time.Hour, 80 * ms, false}, {2 * time.Hour, 80 * ms, false}},
		"late on its second way": {{0, 60 * ms, true}, {200 * ms, 60 * ms, true}, {400 * ms, 49 * ms, false}},
	} {
		var p punctuality
		began := time.Now()
		for i, s := range starts {
			if got := p.stale(began.Add(s.at), s.late, bucket.LateMost); got != s.stale {
				t.Errorf("%s: stale is %v at start %d", name, got, i)
			}
		}
	}
}
