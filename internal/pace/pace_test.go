package pace

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/batches"
)

// run returns n ends at equal intervals.
func run(from, to time.Time, n int) []Step {
	steps := make([]Step, n)
	for i := range steps {
		at := from.Add(to.Sub(from) * time.Duration(i) / time.Duration(n-1))
		steps[i] = Step{From: at, To: at, Counts: batches.Counts{Done: 1}}
	}
	return steps
}

// An unusually long time without ends does not count. A usual one does.
func TestTheRateIsOfTheLastRun(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	for name, tc := range map[string]struct {
		steps           []Step
		began           time.Time
		ended           int
		within          time.Duration
		enough, stalled bool
	}{
		"steady":          {run(ago(60), now, 61), ago(60), 61, 60 * time.Second, true, false},
		"slow and steady": {run(ago(60), ago(5), 6), ago(60), 6, 60 * time.Second, true, false},
		"after a pause": {
			append(run(ago(60), ago(50), 100), run(ago(20), now, 200)...), ago(60), 200,
			20 * time.Second, true, false,
		},
		"after a longer pause": {run(ago(20), now, 200), ago(60), 200, 20 * time.Second, true, false},
		"just after a pause": {
			append(run(ago(60), ago(50), 100), run(ago(4), now, 50)...), ago(60), 50,
			4 * time.Second, false, false,
		},
		"all at once, and no more": {
			append(run(ago(60), ago(59), 50), run(ago(9), ago(8), 50)...), ago(60), 50,
			9 * time.Second, false, false,
		},
		"stopped": {run(ago(60), ago(15), 60), ago(60), 60, 60 * time.Second, false, true},
		"nothing": {nil, ago(60), 0, 60 * time.Second, false, true},
	} {
		l := LastRun(tc.steps, tc.began, now)
		if l.Counts.Done != tc.ended || l.Within != tc.within || l.Enough() != tc.enough || l.Stalled() != tc.stalled {
			t.Errorf("%s: %+v, enough %v, stalled %v", name, l, l.Enough(), l.Stalled())
		}
	}
}

// A rate from samples equals the rate from the database.
func TestStepsBetweenSamples(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var samples []Sample
	for i, done := range []int{3, 3, 5, 5, 9} {
		samples = append(samples, Sample{At: now.Add(time.Duration(i) * time.Second), Counts: batches.Counts{
			Done:  done,
			Usage: batches.Usage{Reserved: float64(10 * done)},
		}})
	}
	steps := stepsBetween(samples)
	if len(steps) != 2 || steps[0].Counts.Done != 2 || steps[1].Counts.Done != 4 ||
		!steps[1].From.Equal(samples[3].At) || !steps[1].To.Equal(samples[4].At) {
		t.Errorf("%+v", steps)
	}
	if l := LastRun(steps, samples[0].At, samples[4].At); l.Counts.Usage.Reserved != 60 {
		t.Errorf("%+v", l)
	}
}

// The rest takes as long as at the measured rate, if that is known.
func TestLeft(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := LastRun(run(now.Add(-10*time.Second), now, 20), now.Add(-10*time.Second), now)
	if left, ok := l.Left(40); left != 20*time.Second || !ok {
		t.Errorf("%v, %v", left, ok)
	}
	if left, ok := (Lately{}).Left(40); left != 0 || ok {
		t.Errorf("%v, %v", left, ok)
	}
}
