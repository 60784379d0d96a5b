package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/metric"
	"github.com/headway-go/headway/internal/overview"
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
)

// fleet reads the state that the whole fleet shares, in the background. Each service is read by itself: one that hangs
// keeps nothing of the other back.
type fleet struct {
	m      *Metrics
	ctx    context.Context //nolint:containedctx // that of the reads, which belong to no scrape
	cancel context.CancelFunc
	reads  sync.WaitGroup

	reader    overview.Reader
	inspector *asynq.Inspector

	mu       sync.Mutex // guards what is below
	watching bool
	closed   bool
	running  bool // the loop runs
	scraped  time.Time
	parts    map[string]*part
	lists    map[string][]engine.Waitlist // by limit, of the last read
	views    []reservations.View          // of the last read
	viewed   time.Time                    // when it began
}

// part is what was last read of one service.
type part struct {
	read    func(context.Context, time.Time) ([]prometheus.Metric, error)
	metrics []prometheus.Metric
	at      time.Time // when metrics were read
	took    time.Duration
	began   time.Time     // of the read under way; zero if there is none
	ended   bool          // a read has ended
	first   chan struct{} // closed when the first read has ended
	err     error
}

func newFleet(m *Metrics) *fleet {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fleet{m: m, ctx: ctx, cancel: cancel, parts: map[string]*part{}}
	f.parts[serviceRedis] = &part{read: f.readRedis, first: make(chan struct{})}
	f.parts[serviceBuckets] = &part{read: f.readBuckets, first: make(chan struct{})}
	return f
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
	f.reader = overview.Reader{Limiter: limiter, Scheduler: s}
	f.inspector = asynq.NewInspectorFromRedisClient(client)
	f.watching = true
	if limiter == nil {
		delete(f.parts, serviceBuckets)
	}
	return nil
}

// collect sends what was read last, and has the state read on.
func (f *fleet) collect(to chan<- prometheus.Metric) {
	if !f.want() {
		return
	}
	f.awaitFirst()
	f.send(to, time.Now())
}

// awaitFirst waits until each service was read once, or for as long as a scrape may wait.
func (f *fleet) awaitFirst() {
	patience := time.NewTimer(firstPatience)
	defer patience.Stop()
	for _, p := range f.parts {
		select {
		case <-p.first:
		case <-patience.C:
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// want starts the reads unless they are under way. It is false where there is nothing to read.
func (f *fleet) want() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.watching || f.closed {
		return false
	}
	f.scraped = time.Now()
	if !f.running {
		f.running = true
		f.reads.Go(f.loop)
	}
	return true
}

// loop reads until no scrape has come for a time.
func (f *fleet) loop() {
	ticker := time.NewTicker(f.m.config.Refresh)
	defer ticker.Stop()
	for f.begin(time.Now()) {
		select {
		case <-f.ctx.Done():
		case <-ticker.C:
		}
	}
}

// begin starts a read of each service of which none is under way. It is false if the loop has to end.
func (f *fleet) begin(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || now.Sub(f.scraped) > idleAfter {
		f.running = false
		return false
	}
	for name, p := range f.parts {
		if p.began.IsZero() {
			p.began = now
			f.reads.Go(func() { f.read(f.ctx, name, p, now) })
		}
	}
	return true
}

// read reads one service.
func (f *fleet) read(ctx context.Context, name string, p *part, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, hungAfter)
	defer cancel()
	metrics, err := p.read(ctx, began)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && p.err == nil && f.ctx.Err() == nil {
		f.m.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the state of the fleet can't be read, its metrics are left out",
			slog.String("service", name), slog.Any("error", err))
	}
	p.began, p.err = time.Time{}, err
	if err == nil {
		p.metrics, p.at, p.took = metrics, time.Now(), time.Since(began)
		if buckets := f.parts[serviceBuckets]; f.views != nil {
			buckets.metrics = f.bucketMetrics() // with the newest waitlists
		}
	}
	if !p.ended {
		p.ended = true
		close(p.first)
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
		if p.at.IsZero() || now.Sub(p.at) > f.m.config.Stale {
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
	if complete {
		to <- f.gauge(metric.ReadAge, unix(oldest))
		to <- f.gauge(metric.ReadSeconds, longest.Seconds())
	}
}

// answers is nil if the service was read the last time, and no read of it hangs.
func (p *part) answers(now time.Time) error {
	switch {
	case p.err != nil:
		return p.err
	case p.ended && (p.began.IsZero() || now.Sub(p.began) < hungAfter):
		return nil
	}
	return ErrNoAnswer
}

func (f *fleet) gauge(name string, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(f.m.descs[name], prometheus.GaugeValue, value, labels...)
}

func (f *fleet) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.reads.Wait()
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
