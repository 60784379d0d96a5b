package fleet_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/field"
	"github.com/headway-go/headway/bench/fleet"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

func contestant(t *testing.T, name string) contest.Contestant {
	t.Helper()
	for _, c := range field.All() {
		if c.Name() == name {
			return c
		}
	}
	t.Fatalf("there is no contestant %q", name)
	return nil
}

func run(t *testing.T, name string, w works.Work) fleet.Measured {
	t.Helper()
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		t.Fatal("MONGODB_URI is not set: use make test, or eval \"$(scripts/services env)\"")
	}
	runner := fleet.Runner{MongoURI: uri, Stderr: os.Stderr}
	measured, err := runner.Run(t.Context(), contestant(t, name), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s on %s: %v %s", name, w.Name, measured.Metrics, measured.Note)
	return measured
}

// little is a work of 40 tasks at 20 a second with a burst of 10. It takes 1.5 s.
func little() works.Work {
	w := works.Work{
		Name: "little", Limits: []contest.Limit{{Key: "fast", Rate: 20, Burst: 10}}, Slots: 5, Ideal: 2 * time.Second,
		Cut: 20 * time.Second, Series: true,
	}
	for i := range 40 {
		w.Tasks = append(w.Tasks, contest.Task{Seq: i, Key: "fast", Reserved: 1, Used: 1})
	}
	return w
}

func TestHeadwayIsMeasured(t *testing.T) {
	t.Parallel()
	got := run(t, works.Headway, little())
	for metric, bounds := range map[string][2]float64{
		results.Done: {1, 1}, results.Share: {.05, 1.1}, results.Worst1s: {.1, 1.4}, results.Finish: {1.4, 20},
		results.Deliveries: {1, 6},
		results.RedisTrips: {1, 60}, results.MongoTrips: {.05, 6}, results.CPU: {.01, 10}, results.Peak: {5, 500},
		results.TaskCPU: {.1, 200},
	} {
		if v := got.Metrics[metric]; v < bounds[0] || v > bounds[1] {
			t.Errorf("%s is %v, want between %v and %v", metric, v, bounds[0], bounds[1])
		}
	}
	sum := 0
	for _, n := range got.Series["fast"] {
		sum += n
	}
	if sum != 40 || got.Note != "" {
		t.Errorf("%d calls in the series, note %q; want 40 and none", sum, got.Note)
	}
}

func TestAContestantWithoutALimitIsDetected(t *testing.T) {
	t.Parallel()
	w := little()
	w.Limits[0] = contest.Limit{Key: "fast", Rate: .5, Burst: 1} // far below what a busy machine does
	got := run(t, works.Raw, w)
	if got.Metrics[results.Worst1s] < 1.2 || got.Metrics[results.Over] < 20 {
		t.Errorf("asynq without a limit: worst second %v, over %v; want above 1.2 and 20", got.Metrics[results.Worst1s],
			got.Metrics[results.Over])
	}
}

func TestWorkersLeaveProfiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	runner := fleet.Runner{MongoURI: os.Getenv("MONGODB_URI"), Stderr: os.Stderr, Profile: folder}
	if _, err := runner.Run(t.Context(), contestant(t, works.Raw), little()); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(folder, "little-asynq-raw-*.pprof"))
	if err != nil || len(found) != 2 {
		t.Fatalf("profiles %v, %v; want profiles of two workers", found, err)
	}
	for _, path := range found {
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTheWorkersAreKilledAndTheShareIsThatOfTheTimeTheyAreUp(t *testing.T) {
	t.Parallel()
	w := little()
	w.Down = works.Outage{At: 500 * time.Millisecond, For: 2 * time.Second}
	got := run(t, works.Headway, w)
	if got.Metrics[results.Gap] < 1.5 || got.Metrics[results.Share] < .05 {
		t.Errorf("longest gap %v s, limit used %v", got.Metrics[results.Gap], got.Metrics[results.Share])
	}
}

func TestASlowOneIsCutOff(t *testing.T) {
	t.Parallel()
	w := little()
	w.Limits[0] = contest.Limit{Key: "fast", Rate: .1, Burst: 1}
	w.Cut = time.Second
	got := run(t, works.Headway, w)
	if got.Note == "" || got.Metrics[results.Done] > .2 {
		t.Errorf("note %q, done %v; want a note, and little done", got.Note, got.Metrics[results.Done])
	}
}

func TestPlacingIsMeasuredWithoutWorkers(t *testing.T) {
	t.Parallel()
	w := little()
	w.EnqueueOnly, w.Unlimited = true, []string{works.Raw}
	for _, name := range []string{works.Headway, works.Raw} {
		m := run(t, name, w).Metrics
		if m[results.Done] != 1 || m[results.Rate] <= 0 || m[results.RedisTrips] <= 0 || m[results.TaskCPU] <= 0 {
			t.Errorf("%s: %v; want all done, and a rate, round trips and CPU time", name, m)
		}
		if _, found := m[results.Deliveries]; found {
			t.Errorf("%s: deliveries without workers", name)
		}
	}
}

func TestABacklogEndsAfterItsFirstStarts(t *testing.T) {
	t.Parallel()
	w := little()
	w.Backlog, w.First = true, 20
	m := run(t, works.Headway, w).Metrics
	for metric, bounds := range map[string][2]float64{
		results.Done: {1, 1}, results.Share: {.05, 1.1}, results.RedisEnq: {.01, 20}, results.RedisTrips: {1, 60},
		results.MongoTrips: {.01, 6}, results.TaskCPU: {.1, 200}, results.Finish: {.4, 20},
	} {
		if v := m[metric]; v < bounds[0] || v > bounds[1] {
			t.Errorf("%s is %v, want between %v and %v", metric, v, bounds[0], bounds[1])
		}
	}
}
