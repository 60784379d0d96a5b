package e2e_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// strictTiming makes the tests judge how late tasks start. Without it they only log that, because a busy machine is
// late.
const strictTiming = "HEADWAY_STRICT_TIMING"

//nolint:paralleltest // measures a limit: it has the machine for itself
func TestDemo(t *testing.T) {
	longtest.Only(t, 50*time.Second)
	r := command(t, "demo", []string{}, "", "demo", "--json")
	if r.code != 0 {
		t.Fatalf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	var report map[string]float64
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v in %s", err, r.out)
	}
	t.Logf("report %s", r.out)
	keys := []string{
		"deliveries_per_task", "enqueued", "failed", "lateness_p50_ms", "lateness_p99_ms", "lost", "succeeded",
		"utilization", "violations",
	}
	if got := slices.Sorted(maps.Keys(report)); !slices.Equal(got, keys) {
		t.Errorf("keys %q, wanted %q", got, keys)
	}
	if report["enqueued"] < 350 || report["succeeded"] != report["enqueued"] || report["failed"] != 0 ||
		report["lost"] != 0 || report["violations"] != 0 {
		t.Error("the promise is broken")
	}
	if used := report["utilization"]; used < 0.97 {
		t.Errorf("%.2f %% of the limit used, wanted 97 %%", 100*used)
	}
	if report["deliveries_per_task"] > 2.1 {
		t.Errorf("%v deliveries a task, wanted at most 2.1", report["deliveries_per_task"])
	}
	if late := report["lateness_p99_ms"]; late > 100 && os.Getenv(strictTiming) == "1" {
		t.Errorf("lateness p99 is %v ms, wanted at most 100", late)
	}
}
