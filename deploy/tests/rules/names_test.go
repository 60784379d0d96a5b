package rules_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/headway-go/headway/internal/state/metric"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// The expressions and texts of the alerts use only metrics and labels that are exported: package metrics tests that it
// exports all of metric.List.
func TestRulesUseExportedLabels(t *testing.T) {
	t.Parallel()
	exported := map[string][]string{}
	for _, m := range metric.List() {
		exported[m.Name] = m.Labels
	}
	inText := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, rule := range newJudge(t).group.AlertingRules() {
		kept := []string{"job", "instance"} // as Prometheus adds them, unless an aggregation drops them
		parser.Inspect(rule.Query(), func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.VectorSelector:
				has, known := exported[n.Name]
				if !known {
					t.Errorf("%s: no metric %s is exported", rule.Name(), n.Name)
				}
				for _, m := range n.LabelMatchers {
					if m.Name != "__name__" && !slices.Contains(has, m.Name) {
						t.Errorf("%s: %s has no label %s", rule.Name(), n.Name, m.Name)
					}
				}
			case *parser.AggregateExpr:
				kept = n.Grouping
				parser.Inspect(n.Expr, func(in parser.Node, _ []parser.Node) error {
					if v, is := in.(*parser.VectorSelector); is {
						for _, label := range n.Grouping {
							if !slices.Contains(exported[v.Name], label) {
								t.Errorf("%s: %s has no label %s", rule.Name(), v.Name, label)
							}
						}
					}
					return nil
				})
			}
			return nil
		})
		rule.Annotations().Range(func(l labels.Label) {
			for _, used := range inText.FindAllStringSubmatch(l.Value, -1) {
				if !slices.Contains(kept, used[1]) {
					t.Errorf("%s: its %s uses the label %s, which its expression drops", rule.Name(), l.Name, used[1])
				}
			}
		})
	}
}
