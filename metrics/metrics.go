package metrics

import (
	"cmp"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headway-go/headway/internal/state/metric"
)

// Config holds the settings of Metrics. The zero value is ready to use.
type Config struct {
	// Keys are the limits whose keys are labels, each with how many keys at most: the first ones that are seen. Other
	// keys are labelled "other". Defaults to none.
	Keys map[string]int
	// Refresh is the pause between two reads of the state that the fleet shares, while scrapes come. Defaults to 5
	// seconds.
	Refresh time.Duration
	// Stale is for how long state that could not be read again is exported. Defaults to 30 seconds.
	Stale time.Duration
	// WaitGoal is how long a task may wait for a limit without max_wait before an alert fires. Defaults to 1 hour.
	WaitGoal time.Duration
	// Logger gets a line when the state of the fleet can't be read any more. Defaults to slog.Default().
	Logger *slog.Logger
}

// Bounds of labels that other programs choose.
const (
	limitsMost   = 500 // a program may resolve limits by name
	queuesMost   = 50
	typesMost    = 50
	commandsMost = 60
	storedMost   = 20
)

// Metrics counts what a process does and shows what its fleet shares. It is a prometheus.Collector: register it once.
// Safe for concurrent use.
type Metrics struct {
	config Config
	descs  map[string]*prometheus.Desc
	own    []prometheus.Collector // counters and histograms of the process
	keys   keys

	limits, queues, types, commands, collections labels

	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	running    *prometheus.GaugeVec
	kinds      *cache[kind, *counts]
	calls      *cache[string, prometheus.Observer] // of Redis, by command
	fleet      *fleet
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns metrics that count nothing yet; see the example of the package.
func New(config Config) *Metrics {
	config.Refresh = cmp.Or(max(0, config.Refresh), 5*time.Second)
	config.Stale = cmp.Or(max(0, config.Stale), 30*time.Second)
	config.WaitGoal = cmp.Or(max(0, config.WaitGoal), time.Hour)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	m := &Metrics{
		config: config, keys: keys{}, limits: newLabels(limitsMost), queues: newLabels(queuesMost),
		types: newLabels(typesMost), commands: newLabels(commandsMost), collections: newLabels(storedMost),
		kinds: newCache[kind, *counts]((queuesMost + 1) * (typesMost + 1)), // with other
		calls: newCache[string, prometheus.Observer](commandsMost + 1),
		descs: map[string]*prometheus.Desc{}, counters: map[string]*prometheus.CounterVec{},
		histograms: map[string]*prometheus.HistogramVec{},
	}
	for limit, n := range config.Keys {
		m.keys[limit] = newLabels(n)
	}
	for _, d := range metric.List() {
		m.define(d)
	}
	m.fleet = newFleet(m)
	return m
}

// define makes what counts a metric.
func (m *Metrics) define(d metric.Metric) {
	switch {
	case d.Type == metric.Counter:
		m.counters[d.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
		m.own = append(m.own, m.counters[d.Name])
	case d.Type == metric.Histogram:
		options := prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets}
		m.histograms[d.Name] = prometheus.NewHistogramVec(options, d.Labels)
		m.own = append(m.own, m.histograms[d.Name])
	case d.Name == metric.Running:
		m.running = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
		m.own = append(m.own, m.running)
	default:
		m.descs[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.own {
		c.Describe(to)
	}
	for _, d := range m.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector. It waits for no store, but for the first read of the fleet: half a second
// at most.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.fleet.collect(to) // first: its calls are counted below
	for _, c := range m.own {
		c.Collect(to)
	}
}

// Close ends the reads of the fleet's state. Later scrapes show what the process counted.
func (m *Metrics) Close() { m.fleet.close() }

func (m *Metrics) count(name string, labels ...string) {
	m.counters[name].WithLabelValues(labels...).Inc()
}

func (m *Metrics) add(n float64, name string, labels ...string) {
	if n > 0 && !math.IsInf(n, 1) { // a counter panics, or counts nothing more
		m.counters[name].WithLabelValues(labels...).Add(n)
	}
}

func (m *Metrics) observe(d time.Duration, name string, labels ...string) {
	m.histograms[name].WithLabelValues(labels...).Observe(d.Seconds())
}
