package rules_test

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
)

const (
	// rulesFile are the rules that are judged.
	rulesFile = "../../prometheus/rules.yml"
	// scrapeEvery is the interval of scrapes and of evaluations.
	scrapeEvery = 15 * time.Second
	// watched is for how long a scenario goes on, on the clock of the samples.
	watched = 20 * time.Minute
)

// judge is Prometheus: it stores what is scraped, and evaluates the rules after each scrape.
type judge struct {
	t       *testing.T
	storage *teststorage.TestStorage
	group   *rules.Group
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{t: t, storage: teststorage.New(t)}
	t.Cleanup(func() { _ = j.storage.Close() })
	quiet := slog.New(slog.DiscardHandler)
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: quiet, MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
	})
	t.Cleanup(func() { _ = engine.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, QueryFunc: rules.EngineQueryFunc(engine, j.storage), Context: t.Context(), Logger: quiet,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Appendable: j.storage, Queryable: j.storage,
	})
	groups, errs := manager.LoadGroups(scrapeEvery, labels.EmptyLabels(), "", nil, false, rulesFile)
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("%d groups: %v", len(groups), errs)
	}
	j.group = slices.Collect(maps.Values(groups))[0]
	return j
}

// watch scrapes a registry, nil for none, and returns which alerts fired, and after how long. Before each scrape, step
// is called.
func (j *judge) watch(registry *prometheus.Registry, step func()) map[string]time.Duration {
	j.t.Helper()
	fired := map[string]time.Duration{}
	begin := time.Now()
	for at := time.Duration(0); at <= watched; at += scrapeEvery {
		if step != nil {
			step()
		}
		if registry != nil {
			j.scrape(registry, begin.Add(at))
		}
		j.group.Eval(j.t.Context(), begin.Add(at))
		for _, rule := range j.group.AlertingRules() {
			if rule.LastError() != nil {
				j.t.Fatalf("%s: %v", rule.Name(), rule.LastError())
			}
			if _, before := fired[rule.Name()]; !before && rule.State() == rules.StateFiring {
				fired[rule.Name()] = at
			}
		}
	}
	return fired
}

// says fails the test unless HeadwayStuck fires with the cause as its summary, and what ends it in its description.
func (j *judge) says(cause, remedy string) {
	j.t.Helper()
	var all []string
	for _, rule := range j.group.AlertingRules() {
		for _, a := range rule.ActiveAlerts() {
			summary := a.Annotations.Get("summary")
			if rule.Name() == "HeadwayStuck" && summary == cause && strings.Contains(a.Annotations.Get("description"), remedy) {
				return
			}
			all = append(all, rule.Name()+": "+summary)
		}
	}
	j.t.Errorf("no alert says %q with %q: %q", cause, remedy, all)
}

// scrape stores the counters and gauges of a registry.
func (j *judge) scrape(registry *prometheus.Registry, at time.Time) {
	j.t.Helper()
	families, err := registry.Gather()
	if err != nil {
		j.t.Fatal(err)
	}
	appender := j.storage.Appender(j.t.Context())
	for _, family := range families {
		if family.GetType() == dto.MetricType_HISTOGRAM {
			continue // no alert uses one
		}
		for _, m := range family.GetMetric() {
			series := labels.NewBuilder(labels.FromStrings("__name__", family.GetName(), "job", "headway", "instance", "one"))
			for _, l := range m.GetLabel() {
				series.Set(l.GetName(), l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if _, err = appender.Append(0, series.Labels(), at.UnixMilli(), value); err != nil {
				j.t.Fatal(err)
			}
		}
	}
	if err = appender.Commit(); err != nil {
		j.t.Fatal(err)
	}
}
