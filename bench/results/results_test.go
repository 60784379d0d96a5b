package results_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/headway-go/headway/bench/results"
)

func one(session, contestant string, repetition int, share float64) results.Result {
	return results.Result{
		Work: "burst", Contestant: contestant, Repetition: repetition, Session: session,
		Metrics: map[string]float64{results.Share: share},
	}
}

func TestANewSessionReplacesWhatItMeasuresAndNoMore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "benchmarks", "results.json")
	f, err := results.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Sessions["old"], f.Sessions["new"] = results.Session{Date: "then"}, results.Session{Date: "now"}
	f.Add(one("old", "headway", 0, .1))
	f.Add(one("old", "headway", 1, .2))
	f.Add(one("old", "asynq", 0, .3))
	f.Add(one("new", "headway", 0, .9))
	f.Add(one("new", "headway", 1, .8))
	if err = f.Save(path); err != nil {
		t.Fatal(err)
	}
	if f, err = results.Load(path); err != nil {
		t.Fatal(err)
	}
	if got := f.Values("burst", "headway", results.Share); len(got) != 2 || got[0] != .9 || got[1] != .8 {
		t.Errorf("headway has %v, want the two of the new session", got)
	}
	if got := f.Values("burst", "asynq", results.Share); len(got) != 1 {
		t.Errorf("asynq has %v, want the one of the old session", got)
	}
	if len(f.Sessions) != 2 {
		t.Errorf("sessions %v", f.Sessions)
	}
	f.Add(one("new", "asynq", 0, .4))
	if err = f.Save(path); err != nil {
		t.Fatal(err)
	}
	if f, err = results.Load(path); err != nil {
		t.Fatal(err)
	}
	if _, there := f.Sessions["old"]; there {
		t.Error("a session that has no result left is kept")
	}
}

func TestMeasuredIsOfOneSession(t *testing.T) {
	t.Parallel()
	f := &results.File{Sessions: map[string]results.Session{"old": {Date: "then"}, "new": {Date: "now"}}}
	f.Add(one("old", "asynq", 0, .3))
	f.Add(one("new", "headway", 0, .9))
	got := f.Measured("new")
	if len(got.Results) != 1 || got.Results[0].Contestant != "headway" || len(got.Sessions) != 1 ||
		got.Sessions["new"].Date != "now" {
		t.Errorf("the new session measured %+v", got)
	}
	if got = f.Measured("none"); len(got.Results) != 0 || len(f.Results) != 2 {
		t.Errorf("no session measured %+v; %d are left", got, len(f.Results))
	}
}

// A value that is not a number counts as not measured, because JSON has no such value.
func TestNoNumberIsNotMeasured(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	f := &results.File{Sessions: map[string]results.Session{"new": {}}}
	r := one("new", "headway", 0, math.NaN())
	r.Metrics[results.Deliveries] = 2
	f.Add(r)
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	if got := f.Values("burst", "headway", results.Share); len(got) != 0 {
		t.Errorf("the share is %v", got)
	}
	if got := f.Values("burst", "headway", results.Deliveries); len(got) != 1 {
		t.Errorf("the deliveries are %v", got)
	}
}
