package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

const (
	// idleAfter is how long the state of the fleet is read on without a scrape.
	idleAfter = 3 * time.Minute
	// hungAfter is how long a read may take until its service counts as down.
	hungAfter = 3 * time.Second
	// firstPatience bounds how long a scrape waits for the first read.
	firstPatience = 500 * time.Millisecond
)

// The services that are read.
const (
	serviceRedis   = "redis"
	serviceBuckets = "buckets"
	serviceRecords = "records"
)

// fleet reads the state that the whole fleet shares, in the background. Each service is read by itself: one that hangs
// keeps nothing of the other back.
type fleet struct {
	m      *Metrics
	ctx    context.Context //nolint:containedctx // that of the reads, which belong to no scrape
	cancel context.CancelFunc
	reads  sync.WaitGroup

	client    redis.UniversalClient
	reader    state.Reader
	inspector *asynq.Inspector
	records   *records // nil before [Metrics.WatchRecords]

	mu      sync.Mutex // guards what is below
	scraped time.Time
	parts   map[string]*part                 // by service. None before Watch.
	shared  state.Snapshot                   // of the last read of Redis, without limits
	lists   map[string][]dispatcher.Waitlist // by limit, of the last read
	buckets []state.Bucket                   // of the last read
	viewed  time.Time                        // when it began
	batches []state.Batch                    // of the last count
}

// part is what was last read of one service.
type part struct {
	read    func(context.Context, time.Time) ([]prometheus.Metric, error)
	loops   bool // it is read again and again
	metrics []prometheus.Metric
	at      time.Time // when metrics were read
	took    time.Duration
	began   time.Time     // of the read under way; zero if there is none
	first   chan struct{} // closed when the first read has ended
	err     error
}

func newFleet(m *Metrics) *fleet {
	ctx, cancel := context.WithCancel(context.Background())
	return &fleet{m: m, ctx: ctx, cancel: cancel, parts: map[string]*part{}}
}

// Watch has the metrics show the limits, waitlists and queues of the fleet, as far as this Redis and this limiter know
// them. Call it once, before the first scrape. The client stays the caller's, to be closed after Close.
func (m *Metrics) Watch(client redis.UniversalClient, limiter *reservations.Limiter) error {
	s, err := scheduler.New(client, limiter, scheduler.Config{Logger: m.config.Logger})
	if err != nil {
		return err
	}
	f := m.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.client = client
	f.reader = state.Reader{Limiter: limiter, Scheduler: s}
	f.inspector = asynq.NewInspectorFromRedisClient(client)
	f.parts[serviceRedis] = &part{read: f.readRedis, first: make(chan struct{})}
	if limiter != nil {
		f.parts[serviceBuckets] = &part{read: f.readBuckets, first: make(chan struct{})}
	}
	return nil
}

// Ready is nil if Redis and the store of the buckets answered when they were last read, which a scrape and Ready cause.
// It waits for no store, but for the first read: half a second at most. The error names the services that do not
// answer.
func (m *Metrics) Ready() error {
	f := m.fleet
	if !f.want() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(f.parts)) {
		if name == serviceRecords {
			continue // without it, tasks wait with their results
		}
		if err := f.parts[name].answers(time.Now()); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

// collect sends what was read last, and has the state read on.
func (f *fleet) collect(to chan<- prometheus.Metric) {
	if f.want() {
		f.send(to, time.Now())
	}
}

// want has all services read on. It waits until each was read once, or for as long as a scrape may wait. It is false
// where there is nothing to read.
func (f *fleet) want() bool {
	if !f.start() {
		return false
	}
	patience := time.NewTimer(firstPatience)
	defer patience.Stop()
	for _, p := range f.parts {
		select {
		case <-p.first:
		case <-patience.C:
			return true
		case <-f.ctx.Done():
			return true
		}
	}
	return true
}

// start starts the loops that have ended. It is false where there is nothing to read.
func (f *fleet) start() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || len(f.parts) == 0 {
		return false
	}
	f.scraped = time.Now()
	for name, p := range f.parts {
		if !p.loops {
			p.loops = true
			f.reads.Go(func() { f.loop(name, p) })
		}
	}
	return true
}

// loop reads one service until no scrape has come for a time.
func (f *fleet) loop(name string, p *part) {
	ticker := time.NewTicker(f.m.config.Refresh)
	defer ticker.Stop()
	for f.goesOn(p) {
		f.read(f.ctx, name, p)
		select {
		case <-f.ctx.Done():
		case <-ticker.C:
		}
	}
}

func (f *fleet) goesOn(p *part) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.loops = f.ctx.Err() == nil && time.Since(f.scraped) <= idleAfter
	return p.loops
}

// read reads one service.
func (f *fleet) read(ctx context.Context, name string, p *part) {
	ctx, cancel := context.WithTimeout(ctx, hungAfter)
	defer cancel()
	began := time.Now()
	f.mu.Lock()
	p.began = began
	f.mu.Unlock()
	metrics, err := p.read(ctx, began)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && p.err == nil && f.ctx.Err() == nil {
		f.m.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the state of the fleet can't be read, its metrics are left out",
			slog.String("service", name), slog.Any("error", err))
	}
	if !p.ended() {
		defer close(p.first)
	}
	p.began, p.err = time.Time{}, err
	if err != nil {
		return
	}
	p.metrics, p.at, p.took = metrics, time.Now(), time.Since(began)
	if buckets := f.parts[serviceBuckets]; f.buckets != nil {
		buckets.metrics = f.bucketMetrics() // with the newest waitlists
	}
}

// send sends the metrics of both services, and whether they answer.
func (f *fleet) send(to chan<- prometheus.Metric, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest time.Time
	var longest time.Duration
	complete := true
	for name, p := range f.parts {
		answers := 0.
		if p.answers(now) == nil {
			answers = 1
		}
		to <- f.gauge(metric.Up, answers, name)
		if !p.fresh(now, f.m.config.Stale) {
			complete = false
			continue
		}
		if oldest.IsZero() || p.at.Before(oldest) {
			oldest = p.at
		}
		longest = max(longest, p.took)
		for _, metric := range p.metrics {
			to <- metric
		}
	}
	if f.anyRead() {
		for _, metric := range f.stuckMetrics(now) {
			to <- metric
		}
	}
	if complete {
		to <- f.gauge(metric.ReadAge, unix(oldest))
		to <- f.gauge(metric.ReadSeconds, longest.Seconds())
	}
}

// anyRead says whether a read of a service has ended. The caller holds the lock.
func (f *fleet) anyRead() bool {
	for _, p := range f.parts {
		if p.ended() {
			return true
		}
	}
	return false
}

// ended says whether a read has ended.
func (p *part) ended() bool { return p.err != nil || !p.at.IsZero() }

// fresh says whether what was last read of the service is exported. A service that is not there has nothing.
func (p *part) fresh(now time.Time, stale time.Duration) bool {
	return p != nil && !p.at.IsZero() && now.Sub(p.at) <= stale
}

// answers is nil if the service was read the last time, and no read of it hangs.
func (p *part) answers(now time.Time) error {
	switch {
	case p.err != nil:
		return p.err
	case p.ended() && (p.began.IsZero() || now.Sub(p.began) < hungAfter):
		return nil
	}
	return ErrNoAnswer
}

func (f *fleet) gauge(name string, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(f.m.descs[name], prometheus.GaugeValue, value, labels...)
}

// close ends the reads. None starts afterwards.
func (f *fleet) close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.reads.Wait()
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
