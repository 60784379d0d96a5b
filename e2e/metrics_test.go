package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/headway-go/headway/internal/state"
)

// scrape is the metrics of all workers: sums of counters, and the most of gauges.
type scrape map[string]float64

// scrapeAll reads the metrics of all workers.
func (w *world) scrapeAll(t *testing.T) scrape {
	t.Helper()
	all := scrape{}
	for _, p := range w.workers {
		for _, family := range scrapeOne(t, p.metricsURL(t)+"/metrics") {
			for _, m := range family.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
				name := fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ","))
				if family.GetType() == dto.MetricType_GAUGE {
					all[name] = max(all[name], m.GetGauge().GetValue())
				} else {
					all[name] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return all
}

// metricsURL is where the worker serves its metrics, as it logs it.
func (p *process) metricsURL(t *testing.T) (url string) {
	t.Helper()
	await(t, p.name+" serves metrics", func() (bool, string) {
		for line := range strings.Lines(p.log(t)) {
			var served struct {
				Text    string `json:"msg"`
				Address string `json:"address"`
			}
			if json.Unmarshal([]byte(line), &served) == nil && served.Text == "metrics are served" {
				url = "http://" + served.Address
			}
		}
		return url != "", p.log(t)
	})
	return url
}

func scrapeOne(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	body := get(t, url)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v:\n%s", err, body)
	}
	return families
}

// get is the body of a good answer.
func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", url, res.StatusCode, err, body)
	}
	return string(body)
}

func (s scrape) want(t *testing.T, want float64, name string) {
	t.Helper()
	if got := s[name]; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// The metrics of three workers are what the provider counted and what `limits show` says: while the queue is paused
// before the second batch, so that nothing changes between two looks, and at the end.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const tasks = 150
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {rate: 40/s, capacity: 40}, tokens: {rate: 3500/s, capacity: 10000}}, settle: adjust}",
		provider: []string{"-tokens-rate=1e9", "-tokens-capacity=1e9"}, // counts them, and refuses nothing
	})
	w.flags = []string{"--metrics", "127.0.0.1:0"}
	all := strings.SplitAfter(examplesGodoc(t, tasks), "\n")
	w.enqueue(t, strings.Join(all[:tasks/4], ""))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/4)
	if err := w.inspector.PauseQueue(queue); err != nil {
		t.Fatal(err)
	}
	w.enqueue(t, strings.Join(all[tasks/4:], ""))
	w.compare(t)
	if err := w.inspector.UnpauseQueue(queue); err != nil {
		t.Fatal(err)
	}
	w.awaitCompleted(t, tasks)
	r, metrics := w.report(t), w.scrapeAll(t)
	metrics.wantReport(t, r.Accepted, r.Violations, w.estimated(t), r.Meters["tokens"].Used)
	for _, p := range w.workers {
		if got := get(t, p.metricsURL(t)+"/readyz"); got != "ok\n" {
			t.Errorf("ready: %q", got)
		}
	}
	w.finish(t)
}

// estimated are the tokens that ended tasks were charged, as their log lines have it.
func (w *world) estimated(t *testing.T) (tokens float64) {
	t.Helper()
	for _, p := range w.workers {
		for line := range strings.Lines(p.log(t)) {
			var ended struct {
				Text      string             `json:"msg"`
				Estimated map[string]float64 `json:"estimated"`
			}
			if json.Unmarshal([]byte(line), &ended) == nil && ended.Text == "task done" {
				tokens += ended.Estimated["tokens"]
			}
		}
	}
	return tokens
}

// wantReport compares the counters with what the provider counted.
func (s scrape) wantReport(t *testing.T, accepted, violations int, estimated, used float64) {
	t.Helper()
	s.want(t, float64(accepted+violations), "headway_starts_total{key=,limit=openai}")
	s.want(t, float64(violations), "headway_provider_refusals_total{key=,limit=openai}")
	s.want(t, estimated, "headway_tokens_estimated_total{key=,limit=openai,meter=tokens}")
	s.want(t, used, "headway_tokens_settled_total{key=,limit=openai,meter=tokens}")
	s.want(t, float64(accepted), "headway_start_lateness_seconds{limit=openai}")
	s.want(t, 1, "headway_dispatcher_on_duty{}")
	s.want(t, 1, "headway_up{service=redis}")
	s.want(t, 1, "headway_up{service=buckets}")
}

// shown is the limit as `limits show` prints it.
func (w *world) shown(t *testing.T) state.Bucket {
	t.Helper()
	var shown state.Limits
	if err := json.Unmarshal([]byte(w.worker(t, "limits", "show", "openai", "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	return shown.Limits[0].Buckets[0]
}

// readSince waits until each worker has read the state of the fleet since now, and returns their metrics.
func (w *world) readSince(t *testing.T) scrape {
	t.Helper()
	began := float64(time.Now().UnixMicro()) / 1e6
	for _, p := range w.workers {
		await(t, p.name+" has read the state of the fleet", func() (bool, string) {
			families := scrapeOne(t, p.metricsURL(t)+"/metrics")
			read, took := families["headway_fleet_read_timestamp_seconds"], families["headway_fleet_read_duration_seconds"]
			if read == nil || took == nil {
				return false, "it was not read"
			}
			at := read.GetMetric()[0].GetGauge().GetValue() - took.GetMetric()[0].GetGauge().GetValue()
			return at > began, fmt.Sprintf("%v s before", began-at)
		})
	}
	return w.scrapeAll(t)
}

// compare compares the metrics of a paused fleet with the provider and with `limits show`. It waits until promoted
// tasks are back in their places, and nothing has changed during a read.
func (w *world) compare(t *testing.T) {
	t.Helper()
	var all scrape
	var before, b state.Bucket
	await(t, "nothing changes", func() (bool, string) {
		before = w.shown(t)
		all, b = w.readSince(t), w.shown(t)
		full := slices.EqualFunc(before.Meters, b.Meters, func(x, y state.Meter) bool { return x.Level == y.Level })
		return b.Promoted == 0 && before.Waiting == b.Waiting && full,
			fmt.Sprintf("%d waiting, %d promoted", b.Waiting, b.Promoted)
	})
	if b.Waiting == 0 {
		t.Fatal("no task waits: there is nothing to compare")
	}
	t.Logf("paused with %d waiting tasks", b.Waiting)
	all.want(t, float64(b.Waiting), "headway_waitlist_tasks{key=,limit=openai,state=waiting}")
	all.want(t, float64(b.Promoted), "headway_waitlist_tasks{key=,limit=openai,state=promoted}")
	for i, m := range b.Meters {
		labels := "{key=,limit=openai,meter=" + m.Meter + "}"
		all.want(t, m.Capacity, "headway_meter_capacity_tokens"+labels)
		all.want(t, m.Level, "headway_meter_level_tokens"+labels) // full again: nothing starts
		// What is reserved comes back while no task starts: the metrics were read between the two looks.
		if got := all["headway_meter_reserved_tokens"+labels]; got < m.Promised || got > before.Meters[i].Promised {
			t.Errorf("%s: %v are reserved, limits show says %v before and %v after", m.Meter, got,
				before.Meters[i].Promised, m.Promised)
		}
		all.want(t, m.Waiting, "headway_waitlist_tokens"+labels)
	}
	i, r := w.info(t), w.report(t)
	all.want(t, float64(i.Completed), "headway_queue_tasks{queue=default,state=completed}")
	all.want(t, 1, "headway_queue_paused{queue=default}")
	all.want(t, float64(i.Completed), "headway_tasks_finished_total{queue=default,result=succeeded,type=llm:call}")
	all.wantReport(t, r.Accepted, r.Violations, w.estimated(t), r.Meters["tokens"].Used)
}
