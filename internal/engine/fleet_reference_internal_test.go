package engine

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// readReference adds the printed results of the reference simulation to results, by scenario.
func readReference(t *testing.T, name string, results map[string]fleetReport) {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, figures, _ := strings.Cut(lines.Text(), "{")
		var r fleetReport
		_, err := fmt.Sscanf(figures,
			"'done': %d, 'took': %f, 'best': %f, 'util': %f, 'deliveries': %f, 'most': %d, 'win': %f, 'lost': %f",
			&r.done, &r.took, &r.best, &r.util, &r.deliveries, &r.most, &r.win, &r.lost)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		results[strings.TrimSpace(name)] = r
	}
}

// referenceResults returns the results of the reference simulation. Its dispatcher looks every 100 ms. If estimates
// are too high, refunds let promoted tasks pass holding ones, and a dispatcher that looks sooner promotes more of
// them. For these scenarios the reference looks every 25 ms.
func referenceResults(t *testing.T) map[string]fleetReport {
	t.Helper()
	results := map[string]fleetReport{}
	readReference(t, "waitlist_results.txt", results)
	readReference(t, "waitlist_results_25ms.txt", results)
	return results
}

// shortScenarios run with -short.
var shortScenarios = []string{
	"estimates 3x too high max=500", "chat demo, both", "window of 10 s and 150/s", "4 a second",
}

// In each scenario the fleet has at least the usage of the reference simulation, and at most its deliveries and lost
// places. No window exceeds the limit. The tasks delivered without a promotion differ from the reference. Answers of
// buckets take longer than in the reference, to save round trips: 0.2 % of the time and 0.6 % of the places are the
// tolerance.
func TestFleetScenarios(t *testing.T) {
	t.Parallel()
	want := referenceResults(t)
	all := fleetScenarios()
	if len(all) != 57 {
		t.Errorf("%d scenarios, the reference has 57", len(all))
	}
	if longtest.Short(t, 2*time.Minute) {
		all = slices.DeleteFunc(all, func(f fleet) bool { return !slices.Contains(shortScenarios, f.name) })
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			want, ok := want[f.name]
			if !ok {
				t.Fatal("not in the results of the reference")
			}
			if f.stray > 0 {
				want.most += 2
			}
			got := simulate(t, f)
			t.Log(got)
			if got.done != want.done || got.win > max(1.0005, want.win+.0015) || got.took > want.took*1.002+.1 ||
				got.deliveries > want.deliveries+.02 || got.most > want.most || got.lost > want.lost+.6 {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}
