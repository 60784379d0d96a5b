package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// kind is what tasks have in common that are counted together: the labels of their queue and their type.
type kind struct{ queue, name string }

// counts are the metrics of one kind of tasks.
type counts struct {
	kind

	running   prometheus.Gauge
	succeeded prometheus.Counter
	duration  prometheus.Observer
}

// of returns the counts of a task.
func (m *Metrics) of(t worker.TaskRef) *counts {
	k := kind{queue: m.queues.of(t.Queue), name: m.types.of(t.Type)}
	c, _ := m.kinds.get(k, func() *counts {
		return &counts{
			kind: k, running: m.running.WithLabelValues(k.queue),
			succeeded: m.counters[metric.Finished].WithLabelValues(k.queue, k.name, string(worker.KindSucceeded)),
			duration:  m.histograms[metric.Duration].WithLabelValues(k.name),
		}
	})
	return c
}

// Event counts what a worker does: put it into worker.Config.Events.
func (m *Metrics) Event(e worker.Event) {
	if e.Ended() {
		m.finished(e)
		return
	}
	switch e.Kind { //nolint:exhaustive // a block has a task that ends as refused
	case worker.KindStarted:
		m.started(e)
	case worker.KindRejected:
		m.rejected(e)
	case worker.KindDeferred:
		m.deferred(e)
	case worker.KindSettled:
		if e.Err != nil {
			m.count(metric.Unsettled, m.limits.of(e.Charge.Limit))
		}
	case worker.KindSynced:
		m.synced(e)
	}
}

func (m *Metrics) started(s worker.Event) {
	m.of(s.Task).running.Inc()
	for _, c := range s.Charges {
		m.count(metric.Starts, m.limits.of(c.Limit), m.keys.label(c.Limit, c.Key))
	}
	if len(s.Charges) > 0 {
		limit := m.limits.of(s.Charges[len(s.Charges)-1].Limit)
		m.observe(s.Lateness, metric.Lateness, limit)
		m.observe(s.Outcome.Hold, metric.Hold, limit)
	}
}

func (m *Metrics) finished(f worker.Event) {
	c := m.of(f.Task)
	if !f.NotStarted {
		c.running.Dec()
	}
	if f.Kind == worker.KindSucceeded {
		c.succeeded.Inc()
	} else {
		m.count(metric.Finished, c.queue, c.name, string(f.Kind))
	}
	c.duration.Observe(f.Elapsed.Seconds())
	for _, c := range f.Charges {
		limit, key := m.limits.of(c.Limit), m.keys.label(c.Limit, c.Key)
		for meter, n := range c.Tokens {
			used, reported := f.Used[meter]
			if !reported {
				used = n
			}
			m.add(n, metric.Estimated, limit, key, meter)
			m.add(used, metric.Settled, limit, key, meter)
		}
	}
	if refusal, ok := errors.AsType[*reservations.RetryAfterError](f.Err); ok && refusal != nil && len(f.Charges) > 0 {
		c := f.Charges[len(f.Charges)-1]
		m.count(metric.Refusals, m.limits.of(c.Limit), m.keys.label(c.Limit, c.Key))
	}
}

func (m *Metrics) rejected(r worker.Event) {
	reason := "invalid"
	if errors.Is(r.Err, tasks.ErrExpired) {
		reason = "expired"
	}
	m.count(metric.Rejected, m.queues.of(r.Task.Queue), m.types.of(r.Task.Type), reason)
}

func (m *Metrics) deferred(d worker.Event) {
	reason := "limit"
	switch {
	case errors.Is(d.Err, reservations.ErrUnavailable):
		reason = "store"
	case d.Charge.Limit == "":
		reason = "refused"
	}
	m.count(metric.Deferred, m.limits.of(d.Charge.Limit), reason)
}

func (m *Metrics) synced(s worker.Event) {
	result := "applied"
	if s.Err != nil {
		result = "failed"
	}
	m.count(metric.Syncs, m.limits.of(s.Charge.Limit), result)
}
