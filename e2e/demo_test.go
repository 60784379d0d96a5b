package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

// The demo runs all of its tasks within the limit, and prints its report. How many calls arrive late at its provider
// depends on how busy the machine is.
func TestDemo(t *testing.T) {
	t.Parallel()
	night.Only(t, "takes 35 s")
	r := command(t, programPlain, []string{}, "", "demo", "--json")
	var report map[string]float64
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", r.code, err, r.out, r.err)
	}
	t.Logf("report %s", r.out)
	keys := []string{
		"deliveries_per_task", "enqueued", "failed", "lateness_p50_ms", "lateness_p99_ms", "limit_exceeded",
		"longest_stall_ms", "lost", "succeeded", "utilization", "violations",
	}
	if got := slices.Sorted(maps.Keys(report)); !slices.Equal(got, keys) {
		t.Errorf("keys %q, wanted %q", got, keys)
	}
	if report["enqueued"] < 350 || report["succeeded"] != report["enqueued"] || report["failed"] != 0 ||
		report["lost"] != 0 || report["limit_exceeded"] != 0 || r.code != 0 {
		t.Errorf("exit code %d", r.code)
	}
}
