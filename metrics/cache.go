package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headway-go/headway/internal/metric"
	"github.com/headway-go/headway/worker"
)

// cache holds what counts, so that labels are looked up once. The zero value is ready. Safe for concurrent use.
type cache[K comparable, V any] struct {
	mu  sync.RWMutex // guards all
	all map[K]V
}

// get returns the value of a key, which it makes if there is none. A value that is not to be kept is made each time.
func (c *cache[K, V]) get(key K, create func() (value V, keep bool)) V {
	c.mu.RLock()
	value, ok := c.all[key]
	c.mu.RUnlock()
	if ok {
		return value
	}
	value, keep := create()
	if !keep {
		return value
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[K]V{}
	}
	c.all[key] = value
	return value
}

// kind is what tasks have in common that are counted together.
type kind struct{ queue, name string }

// counts are the metrics of one kind of tasks.
type counts struct {
	kind

	running   prometheus.Gauge
	succeeded prometheus.Counter
	duration  prometheus.Observer
}

// of returns the counts of a task. Kinds are bounded, as their labels are.
func (m *Metrics) of(t worker.TaskRef) *counts {
	k := kind{queue: m.queues.label(t.Queue), name: m.types.label(t.Type)}
	return m.kinds.get(k, func() (*counts, bool) {
		return &counts{
			kind: k, running: m.running.WithLabelValues(k.queue),
			succeeded: m.counters[metric.Finished].WithLabelValues(k.queue, k.name, string(worker.KindSucceeded)),
			duration:  m.histograms[metric.Duration].WithLabelValues(k.name),
		}, true
	})
}
