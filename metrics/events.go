package metrics

import (
	"errors"

	"github.com/headway-go/headway/internal/metric"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Events count what a worker does: pass them as worker.Config.Events, or join them with others by Events.With.
func (m *Metrics) Events() worker.Events {
	return worker.Events{
		OnStart: m.started, OnFinish: m.finished, OnRefuse: m.rejected, OnDefer: m.deferred, OnSort: m.sorted,
		OnSettle: m.settled, OnSync: m.synced,
	}
}

func (m *Metrics) started(s worker.Start) {
	m.of(s.Task).running.Inc()
	for _, c := range s.Charges {
		m.count(metric.Starts, c.Limit, m.keys.label(c.Limit, c.Key))
	}
	if len(s.Charges) > 0 {
		limit := s.Charges[len(s.Charges)-1].Limit
		m.observe(s.Lateness, metric.Lateness, limit)
		m.observe(s.Outcome.Hold, metric.Hold, limit)
	}
}

func (m *Metrics) finished(f worker.Finish) {
	c := m.of(f.Task)
	if !f.Foreign {
		c.running.Dec()
	}
	if f.Result == worker.ResultSucceeded {
		c.succeeded.Inc()
	} else {
		m.count(metric.Finished, c.queue, c.name, string(f.Result))
	}
	c.duration.Observe(f.Elapsed.Seconds())
	for _, c := range f.Charges {
		key := m.keys.label(c.Limit, c.Key)
		for meter, n := range c.Tokens {
			used, reported := f.Used[meter]
			if !reported {
				used = n
			}
			m.add(n, metric.Estimated, c.Limit, key, meter)
			m.add(used, metric.Settled, c.Limit, key, meter)
		}
	}
	if refusal, ok := errors.AsType[*tasks.RetryAfterError](f.Err); ok && refusal != nil && len(f.Charges) > 0 {
		c := f.Charges[len(f.Charges)-1]
		m.count(metric.Refusals, c.Limit, m.keys.label(c.Limit, c.Key))
	}
}

func (m *Metrics) rejected(r worker.Refusal) {
	reason := "invalid"
	if errors.Is(r.Err, tasks.ErrExpired) {
		reason = "expired"
	}
	m.count(metric.Rejected, m.queues.label(r.Task.Queue), m.types.label(r.Task.Type), reason)
}

func (m *Metrics) deferred(d worker.Deferral) {
	reason := "limit"
	switch {
	case errors.Is(d.Err, reservations.ErrUnavailable):
		reason = "store"
	case d.Charge.Limit == "":
		reason = "refused"
	}
	m.count(metric.Deferred, d.Charge.Limit, reason)
}

func (m *Metrics) sorted(s worker.Sorted) {
	m.add(float64(s.Tasks), metric.Sorted, m.queues.label(s.Queue))
}

func (m *Metrics) settled(s worker.Settlement) {
	if s.Err != nil {
		m.count(metric.Unsettled, s.Charge.Limit)
	}
}

func (m *Metrics) synced(s worker.Sync) {
	result := "applied"
	if s.Err != nil {
		result = "failed"
	}
	m.count(metric.Syncs, s.Charge.Limit, result)
}
