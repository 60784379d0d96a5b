package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/state/metric"
)

const (
	// recordsEvery is the pause between two counts: records are counted one by one.
	recordsEvery = 30 * time.Second
	// batchesRead is how many batches are counted, the newest.
	batchesRead = 20
)

// records are the batches and the dead tasks, as they were counted last.
type records struct {
	batches  *batches.Store
	dead     *deadtasks.Store
	counters map[string]*batches.Counter // of the batches that were read last
	counted  time.Time
	metrics  []prometheus.Metric
}

// WatchRecords has the metrics show batches and dead tasks, as redisstore.Documents or mongostore.Documents has them.
// They are counted every 30 seconds while scrapes come. Call it once, before the first scrape.
func (m *Metrics) WatchRecords(in documents.Store) {
	f := m.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = &records{
		batches: batches.New(in, batches.Options{}), dead: deadtasks.New(in, deadtasks.Options{}),
		counters: map[string]*batches.Counter{},
	}
	f.parts[serviceRecords] = &part{read: f.readRecords, first: make(chan struct{})}
}

// readRecords counts the records, unless that was done a moment ago.
func (f *fleet) readRecords(ctx context.Context, now time.Time) ([]prometheus.Metric, error) {
	r := f.records
	if now.Sub(r.counted) < recordsEvery {
		return r.metrics, nil
	}
	all, err := r.dead.Count(ctx, deadtasks.Filter{})
	if err != nil {
		return nil, err
	}
	lately, err := r.dead.Count(ctx, deadtasks.Filter{Since: now.Add(-time.Hour)})
	if err != nil {
		return nil, err
	}
	found, err := r.count(ctx)
	if err != nil {
		return nil, err
	}
	var open, stopped, waiting, done, failed int
	var stuck []state.Batch
	for _, p := range found {
		left := max(0, p.Requests-p.Done-p.Failed)
		switch {
		case p.StoppedBy != "":
			stopped++
		case p.State == batches.StateOpen && left > 0:
			open++
			waiting, done, failed = waiting+left, done+p.Done, failed+p.Failed
			stuck = append(stuck, state.Batch{
				ID: p.ID, Name: p.Name, Queue: p.Queue, Limits: p.Limits(), Open: true, Waiting: left, Failed: p.Failed,
			})
		}
	}
	f.mu.Lock()
	f.batches = stuck
	f.mu.Unlock()
	r.counted, r.metrics = now, []prometheus.Metric{
		f.gauge(metric.DeadTasks, float64(all)), f.gauge(metric.DeadLately, float64(lately)),
		f.gauge(metric.Batches, float64(open), "open"), f.gauge(metric.Batches, float64(stopped), "stopped"),
		f.gauge(metric.BatchRequests, float64(waiting), "waiting"), f.gauge(metric.BatchRequests, float64(done), "done"),
		f.gauge(metric.BatchRequests, float64(failed), "failed"),
	}
	return r.metrics, nil
}

// count counts the newest batches. A batch that can't be read is left out.
func (r *records) count(ctx context.Context) (found []batches.Progress, err error) {
	newest, err := r.batches.List(ctx, batchesRead)
	if err != nil && !errors.Is(err, batches.ErrMalformed) {
		return nil, err
	}
	counters := map[string]*batches.Counter{}
	for _, b := range newest {
		counter := r.counters[b.ID]
		if counter == nil {
			counter = r.batches.Counter(b.ID)
		}
		counters[b.ID] = counter
		p, err := counter.Progress(ctx)
		if errors.Is(err, batches.ErrMalformed) || errors.Is(err, batches.ErrUnknownBatch) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	r.counters = counters
	return found, nil
}
