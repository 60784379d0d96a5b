package headwaytest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/embedded"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// Fleet is a fleet of workers in virtual time. Its methods are for the goroutine of play, and for functions of
// [Fleet.At].
type Fleet struct {
	// Redis has the queues and the waitlists, Store the buckets. With [BucketsInRedis] the Store is not used.
	Redis, Store *Service

	t        *testing.T
	settings settings
	ctx      context.Context //nolint:containedctx // that of everything in the bubble
	cancel   context.CancelFunc
	began    time.Time
	server   *embedded.Redis
	shared   *memstore.Store
	tasks    *tracker

	producer   *process
	scheduler  *scheduler.Scheduler
	background sync.WaitGroup // arrivals and At
	setting    *process       // whose worker is being set up
	full       chan struct{}  // closed when no more tasks arrive
	fill       func()         // closes full, once
	ended      chan struct{}  // closed when the fleet ends

	mu        sync.Mutex // guards what is below
	processes []*process
	workers   []*Worker // by number
	launched  []*Worker // the restarted ones as well
	apis      map[string]*API
	streams   int
}

// Context is that of the fleet: it ends when the test does. T.Context must not be waited for in a bubble.
func (f *Fleet) Context() context.Context { return f.ctx }

// Elapsed returns the virtual time since the fleet began.
func (f *Fleet) Elapsed() time.Duration { return time.Since(f.began) }

// Scheduler is that of the fleet's producer, whose network no fault of a worker concerns.
func (f *Fleet) Scheduler() *scheduler.Scheduler { return f.scheduler }

// Client returns the producer's client of Redis, for tools of asynq. Do not close it.
func (f *Fleet) Client() redis.UniversalClient { return f.producer.client }

// Workers starts n workers, each in a process of its own with its own network, and returns them. Setup registers the
// handlers of one worker. Config is that of all; more than one fails the test.
func (f *Fleet) Workers(n int, setup func(w *worker.Worker), config ...worker.Config) []*Worker {
	f.t.Helper()
	var c worker.Config
	switch len(config) {
	case 0:
	case 1:
		c = config[0]
	default:
		f.t.Fatalf("headwaytest: %d configs of workers: name one", len(config))
	}
	var all []*Worker
	for range n {
		w := f.launch(len(f.workers), setup, c)
		f.workers = append(f.workers, w)
		all = append(all, w)
	}
	return all
}

// Worker returns the worker of that number, from 0 in the order of their start.
func (f *Fleet) Worker(n int) *Worker {
	f.t.Helper()
	if n < 0 || n >= len(f.workers) {
		f.t.Fatalf("headwaytest: worker %d: there are %d", n, len(f.workers))
	}
	return f.workers[n]
}

// Restart starts a worker with the same setup and config in place of one that was killed or stopped, and returns it.
func (f *Fleet) Restart(n int) *Worker {
	f.t.Helper()
	old := f.Worker(n)
	w := f.launch(n, old.setup, old.config)
	f.workers[n] = w
	return w
}

// SetLimits changes the limits of all processes of the fleet, as a reload does. Providers keep theirs.
func (f *Fleet) SetLimits(limits ...reservations.Limit) {
	f.t.Helper()
	f.settings.limits = limits
	for _, p := range f.connections() {
		if err := p.Limiter.SetLimits(limits); err != nil && !p.dead() {
			f.t.Fatalf("headwaytest: set limits: %v", err)
		}
	}
}

// At calls do at a time since the fleet began, unless the fleet has ended by then.
func (f *Fleet) At(elapsed time.Duration, do func()) {
	f.background.Go(func() {
		if sleepUntil(f.began.Add(elapsed), f.ended) {
			do()
		}
	})
}

// sleepUntil waits for a time. It returns false if end is closed before.
func sleepUntil(at time.Time, end <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-end:
		return false
	}
}

// Run lets the fleet run for a time.
func (*Fleet) Run(d time.Duration) { time.Sleep(d) }

// Drain ends the arrivals, and lets the fleet run until all tasks have ended, at most for a time. It reports whether
// they have. A task that waits for a retry has not ended.
func (f *Fleet) Drain(most time.Duration) bool {
	f.fill()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-f.tasks.done():
		return true
	case <-timer.C:
		return false
	}
}

// connections returns all processes.
func (f *Fleet) connections() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.processes)
}

// inspector is asynq's, with the producer's client.
func (f *Fleet) inspector() *asynq.Inspector {
	return asynq.NewInspectorFromRedisClient(f.producer.client)
}

// close ends everything in the bubble.
func (f *Fleet) close() {
	f.fill()
	close(f.ended)
	f.background.Wait()
	f.present()
	for _, p := range f.connections() {
		if !p.dead() {
			p.wire.Set(network.Up)
			p.store.Set(network.Up)
		}
	}
	for _, w := range f.launched {
		w.stop()
	}
	for _, w := range f.launched {
		<-w.stopped
	}
	f.cancel()
	_ = f.producer.client.Close() // nothing waits for it
	time.Sleep(closing)
	f.server.Close()
}
