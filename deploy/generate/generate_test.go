package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/metric"
)

// What is committed is what the list of metrics makes.
func TestGeneratedFilesAreFresh(t *testing.T) {
	t.Parallel()
	for name, content := range files() {
		want, err := content()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v): run `go generate ./deploy/...`", name, err)
		}
	}
}

// known are the names that may be in an expression, with their labels.
func known() map[string][]string {
	all := map[string][]string{}
	for _, m := range metric.List() {
		all[m.Name] = m.Labels
		if m.Type == metric.Histogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				all[m.Name+suffix] = m.Labels
			}
		}
	}
	return all
}

// expressions are all of the dashboard and of the alerts.
func expressions(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, r := range rows() {
		for _, c := range r.charts {
			for _, q := range c.queries {
				all = append(all, q.expr)
			}
		}
	}
	for _, a := range alerts() {
		all = append(all, a.Expr)
	}
	if len(all) < 40 {
		t.Fatalf("only %d expressions", len(all))
	}
	return all
}

// Each metric of the dashboard and of the alerts is exported, and each exported metric is on the dashboard.
func TestExpressionsUseTheList(t *testing.T) {
	t.Parallel()
	names, selected := regexp.MustCompile(`headway_\w+`), regexp.MustCompile(`(headway_\w+)\{(\w+)=`)
	exported, used := known(), map[string]bool{}
	for _, e := range expressions(t) {
		for _, name := range names.FindAllString(e, -1) {
			if _, ok := exported[name]; !ok {
				t.Errorf("%s is not exported: %s", name, e)
			}
			used[strings.TrimSuffix(name, "_bucket")] = true
		}
		for _, s := range selected.FindAllStringSubmatch(e, -1) {
			if !strings.Contains(strings.Join(exported[s[1]], " "), s[2]) {
				t.Errorf("%s has no label %s: %s", s[1], s[2], e)
			}
		}
	}
	for _, m := range metric.List() {
		if !used[m.Name] {
			t.Errorf("%s is on no chart", m.Name)
		}
	}
}

func TestDashboardFitsTheGrid(t *testing.T) {
	t.Parallel()
	text, err := dashboard()
	var b board
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d: %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				at := [2]int{x, y}
				if x >= 24 || taken[at] != "" {
					t.Fatalf("%q lies on %q at %v", p.Title, taken[at], at)
				}
				taken[at] = p.Title
			}
		}
	}
}
