package rules_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// Prometheus understands each expression of the dashboard.
func TestDashboardExpressions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../grafana/dashboards/headway.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	parsed := 0
	variables := strings.NewReplacer("$__rate_interval", "5m", "$limit", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			parsed++
			if _, err := parser.ParseExpr(variables.Replace(target.Expr)); err != nil {
				t.Errorf("%s: %s: %v", p.Title, target.Expr, err)
			}
		}
	}
	if parsed < 30 {
		t.Errorf("only %d expressions", parsed)
	}
}
