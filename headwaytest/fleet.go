package headwaytest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/embedded"
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
	bubble   *bubble
	settings settings
	ctx      context.Context //nolint:containedctx // that of everything in the bubble
	cancel   context.CancelFunc
	began    time.Time
	server   *embedded.Redis
	shared   *memstore.Store
	tasks    *tracker
	faults   faults
	failures failures
	trace    *trace

	// The observer asks Redis for reports. No fault covers it.
	observer  *redis.Client
	producer  *process
	scheduler *scheduler.Scheduler
	setting   *process // whose worker is being set up
	// In arriving, tasks come to their producers. In background, the rest of the test runs.
	arriving, background sync.WaitGroup
	// Full is closed by fill when no more tasks arrive, and ended when play has ended.
	full, ended chan struct{}
	fill        func()
	// Aborted is closed by abort when code of the test has called t.Fatal or t.Skip.
	aborted chan struct{}
	abort   func()
	closed  atomic.Bool // no function of the test runs any more

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
	problems := []string{least("n", n, 1), given("setup", setup != nil)}
	var c worker.Config
	switch len(config) {
	case 0:
	case 1:
		c = config[0]
	default:
		problems = append(problems, fmt.Sprintf("there are %d configs: must be at most one", len(config)))
	}
	f.check("Fleet.Workers", problems...)
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
	f.check("Fleet.Worker", f.numbered(n))
	return f.workers[n]
}

// numbered is the problem of the number of a worker.
func (f *Fleet) numbered(n int) string {
	switch {
	case len(f.workers) == 0:
		return fmt.Sprintf("n is %d, and there is no worker: call Fleet.Workers first", n)
	case n < 0 || n >= len(f.workers):
		return fmt.Sprintf("n is %d: must be from 0 to %d", n, len(f.workers)-1)
	}
	return ""
}

// Restart starts a worker with the same setup and config in place of one that was killed or stopped, and returns it.
// While a fault keeps it from its start, it tries again each second.
func (f *Fleet) Restart(n int) *Worker {
	f.t.Helper()
	problem := f.numbered(n)
	if problem == "" && !f.workers[n].stopping() {
		problem = fmt.Sprintf("n is %d, and this worker runs: call its Kill or Stop first", n)
	}
	f.check("Fleet.Restart", problem)
	old := f.workers[n]
	w := f.launch(n, old.setup, old.config)
	f.workers[n] = w
	return w
}

// SetLimits changes the limits of all processes of the fleet, as a reload does. Providers keep theirs.
func (f *Fleet) SetLimits(limits ...reservations.Limit) {
	f.t.Helper()
	f.check("Fleet.SetLimits")
	f.mu.Lock()
	f.settings.limits = limits
	f.mu.Unlock()
	for _, p := range f.connections() {
		if err := p.Limiter.SetLimits(limits); err != nil && !p.dead() {
			f.fatalf("Fleet.SetLimits: %v", err)
		}
	}
}

// At calls do at a time since the fleet began, and at once if that is past, unless the fleet has ended by then.
func (f *Fleet) At(elapsed time.Duration, do func()) {
	f.t.Helper()
	f.check("Fleet.At", fromZero("elapsed", elapsed), given("do", do != nil))
	f.background.Go(func() {
		if sleepUntil(f.began.Add(elapsed), f.ended) {
			f.guarded("the function of Fleet.At", do)
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
func (f *Fleet) Run(d time.Duration) {
	f.t.Helper()
	f.check("Fleet.Run", fromZero("d", d))
	f.await(d, nil)
}

// Drain ends the arrivals, and lets the fleet run until all tasks have ended, at most for a time. It reports whether
// they have. A task that waits for a retry has not ended, nor one that waits at its producer until Redis is back.
func (f *Fleet) Drain(most time.Duration) bool {
	f.t.Helper()
	f.check("Fleet.Drain", fromZero("most", most))
	f.fill()
	f.arriving.Wait()
	return f.await(most, f.tasks.done())
}

// await lets time pass until something is done, at most for a time. It reports whether it is. If other code of the test
// has called t.Fatal or t.Skip, await ends the goroutine of its caller.
func (f *Fleet) await(most time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	case <-f.aborted:
		runtime.Goexit()
		return false
	}
}

// connections returns all processes.
func (f *Fleet) connections() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.processes)
}

// inspector is asynq's, of the observer.
func (f *Fleet) inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(f.observer) }

// close ends everything in the bubble.
func (f *Fleet) close() {
	f.fill()
	f.arriving.Wait()
	close(f.ended)
	f.background.Wait()
	f.closed.Store(true)
	f.present()
	f.faults.end()
	for _, w := range f.launched {
		w.stop()
	}
	for _, w := range f.launched {
		<-w.stopped
	}
	f.cancel()
	_ = f.observer.Close() // nothing waits for it
	if f.producer != nil {
		_ = f.producer.client.Close() // nor for this
	}
	time.Sleep(settling)
	f.server.Close()
}
