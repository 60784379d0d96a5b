package goals_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/bench/goals"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// file returns a file with one result of Headway per repetition, with the value of the metric.
func file(work, metric string, values ...float64) *results.File {
	f := &results.File{Sessions: map[string]results.Session{}}
	add(f, work, works.Headway, metric, values...)
	return f
}

func add(f *results.File, work, contestant, metric string, values ...float64) {
	for i, v := range values {
		f.Add(results.Result{
			Work: work, Contestant: contestant, Repetition: i, When: time.Now(), Session: "one",
			Metrics: map[string]float64{metric: v},
		})
	}
}

// only returns the measured goals.
func only(t *testing.T, f *results.File) []goals.Checked {
	t.Helper()
	var measured []goals.Checked
	for _, c := range goals.Check(f) {
		if c.Verdict != goals.Open {
			measured = append(measured, c)
		}
	}
	return measured
}

func TestNothingMeasuredIsOpenNotReached(t *testing.T) {
	t.Parallel()
	f := &results.File{}
	if measured := only(t, f); len(measured) != 0 {
		t.Errorf("without a result: %+v", measured)
	}
	if goals.MissedAny(goals.Check(f)) {
		t.Error("a goal without a measurement counts as missed")
	}
}

func TestMediansAreJudged(t *testing.T) {
	t.Parallel()
	got := only(t, file("burst", results.Share, .999, .9, .998, .997, .996))
	if len(got) != 1 || got[0].Verdict != goals.Reached || got[0].Runs != 5 || got[0].Measured != "99.7 %" {
		t.Errorf("median .997 of five: %+v", got)
	}
	if got = only(t, file("burst", results.Share, .9, .9, .998)); got[0].Verdict != goals.Missed {
		t.Errorf("median .9: %+v", got)
	}
}

func TestOneWindowAboveIsOneTooMany(t *testing.T) {
	t.Parallel()
	f := file("burst", results.Worst1s, .99, .99, 1.01, .99, .99)
	if got := only(t, f); len(got) != 1 || got[0].Verdict != goals.Missed {
		t.Errorf("one of five runs broke the limit: %+v", got)
	}
}

func TestRatiosAreTakenWithinARepetition(t *testing.T) {
	t.Parallel()
	f := file("unlimited", results.Rate, 96, 960, 9600)
	add(f, "unlimited", works.Raw, results.Rate, 100, 1000, 10_000)
	if got := only(t, f); len(got) != 1 || got[0].Verdict != goals.Reached || got[0].Value != .96 {
		t.Errorf("96 %% in each repetition of a machine that drifts: %+v", got)
	}
}
