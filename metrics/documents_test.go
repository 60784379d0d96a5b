package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/state/metric"
)

// panel is a chart of the dashboard.
type panel struct {
	Title, Type string
	ID          int
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr string }
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func panels(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/dashboards/headway.json")), &board); err != nil {
		t.Fatal(err)
	}
	return board.Panels
}

// The page of the docs describes each metric as it is exported, and no other.
func TestPageDescribesTheMetrics(t *testing.T) {
	t.Parallel()
	page := strings.Join(strings.Fields(read(t, "docs/metrics.md")), " ")
	for _, m := range metric.List() {
		labels := "no labels"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		entry := fmt.Sprintf("- `%s` (%s of the %s; %s): %s", m.Name, m.Type, m.Scope, labels, m.Help)
		if !strings.Contains(page, entry) {
			t.Errorf("docs/metrics.md lacks the entry:\n%s", entry)
		}
	}
	if entries := strings.Count(page, "- `headway_"); entries != len(metric.List()) {
		t.Errorf("docs/metrics.md has %d entries for %d metrics", entries, len(metric.List()))
	}
}

// Each metric of the dashboard and of the alerts is exported with its labels, and each exported metric is on the
// dashboard.
func TestExpressionsUseExportedMetrics(t *testing.T) {
	t.Parallel()
	var dashboard strings.Builder
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			dashboard.WriteString(q.Expr + "\n")
		}
	}
	name := regexp.MustCompile(`(headway_\w+?)(?:_bucket)?\b(?:\{(\w+)=)?`)
	labels, shown := map[string]string{}, map[string]bool{}
	for _, m := range metric.List() {
		labels[m.Name] = strings.Join(m.Labels, " ")
	}
	for _, m := range name.FindAllStringSubmatch(dashboard.String(), -1) {
		shown[m[1]] = true
	}
	for metric := range labels {
		if !shown[metric] {
			t.Errorf("%s is on no chart", metric)
		}
	}
	rules := regexp.MustCompile(`(?ms)^ +expr: \|\n(.*?)^ +for:`).FindAllString(read(t, "deploy/prometheus/rules.yml"), -1)
	if len(rules) != 6 {
		t.Fatalf("only %d alerts", len(rules))
	}
	all := dashboard.String() + strings.Join(rules, "\n")
	for _, m := range name.FindAllStringSubmatch(all, -1) {
		if has, ok := labels[m[1]]; !ok || !strings.Contains(has, m[2]) {
			t.Errorf("no metric %s with label %q is exported", m[1], m[2])
		}
	}
}

func TestDashboardFitsTheGrid(t *testing.T) {
	t.Parallel()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels(t) {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d: %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if at := [2]int{x, y}; x >= 24 || taken[at] != "" {
					t.Fatalf("%q lies on %q at %v", p.Title, taken[at], at)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
