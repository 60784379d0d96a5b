package batches_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
)

// ends returns n ends at equal intervals.
func ends(from, to time.Time, n int) []batches.Counts {
	steps := make([]batches.Counts, n)
	for i := range steps {
		at := from.Add(to.Sub(from) * time.Duration(i) / time.Duration(n-1))
		steps[i] = batches.Counts{First: at, Last: at, Done: 1}
	}
	return steps
}

// paceOf returns the pace of a batch whose first request ended at began.
func paceOf(steps []batches.Counts, began, now time.Time) batches.Pace {
	p := batches.Progress{Counts: batches.Counts{Done: 1, First: began, Last: began}, Lately: steps}
	if n := len(steps); n > 0 {
		p.Last = steps[n-1].Last
	}
	return p.Pace(now)
}

// An unusually long time without ends does not count. A usual one does.
func TestTheRateIsOfTheLastRun(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	for name, tc := range map[string]struct {
		steps           []batches.Counts
		began           time.Time
		ended           int
		within          time.Duration
		enough, stalled bool
	}{
		"steady":          {ends(ago(60), now, 61), ago(60), 61, 60 * time.Second, true, false},
		"slow and steady": {ends(ago(60), ago(5), 6), ago(60), 6, 60 * time.Second, true, false},
		"after a pause": {
			append(ends(ago(60), ago(50), 100), ends(ago(20), now, 200)...), ago(60), 200,
			20 * time.Second, true, false,
		},
		"after a longer pause": {ends(ago(20), now, 200), ago(60), 200, 20 * time.Second, true, false},
		"just after a pause": {
			append(ends(ago(60), ago(50), 100), ends(ago(4), now, 50)...), ago(60), 50,
			4 * time.Second, false, false,
		},
		"all at once, and no more": {
			append(ends(ago(60), ago(59), 50), ends(ago(9), ago(8), 50)...), ago(60), 50,
			9 * time.Second, false, false,
		},
		"stopped": {ends(ago(60), ago(15), 60), ago(60), 60, 60 * time.Second, false, true},
		"nothing": {nil, ago(60), 0, 60 * time.Second, false, true},
	} {
		l := paceOf(tc.steps, tc.began, now)
		if _, enough := l.Left(1); l.Ended.Done != tc.ended || l.Within != tc.within || enough != tc.enough ||
			l.Stalled() != tc.stalled {
			t.Errorf("%s: %+v, enough %v, stalled %v", name, l, enough, l.Stalled())
		}
	}
}

// The rest takes as long as at the measured rate, if that is known.
func TestLeft(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := paceOf(ends(now.Add(-10*time.Second), now, 20), now.Add(-10*time.Second), now)
	if left, ok := l.Left(40); left != 20*time.Second || !ok {
		t.Errorf("%v, %v", left, ok)
	}
	if left, ok := (batches.Pace{}).Left(40); left != 0 || ok {
		t.Errorf("%v, %v", left, ok)
	}
}
