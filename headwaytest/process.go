package headwaytest

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/worker"
)

// process is a program of the fleet, with a network of its own.
type process struct {
	// Limiter is that of the process.
	Limiter *reservations.Limiter

	name   string
	fleet  *Fleet
	wire   *network.Wire // to Redis
	store  *reach        // to the store
	client *redis.Client
	died   chan struct{}
	kill   func() // closes died, once
}

// newProcess returns a process that has connected to nothing yet.
func (f *Fleet) newProcess(name string) (*process, error) {
	seed := f.seedOf(name)
	p := &process{name: name, fleet: f, died: make(chan struct{})}
	p.kill = sync.OnceFunc(func() { close(p.died) })
	least, most := f.settings.least, f.settings.most
	p.wire = network.New(network.NewConditions(seed, 1, least, most), f.trace.redis(name, f.server.Serve))
	p.client = connect(p.wire)
	if f.settings.inRedis {
		least, most = 0, 0 // the wire delays its messages
	}
	p.store = &reach{Store: f.shared, Conditions: network.NewConditions(seed, 2, least, most), process: p}
	if f.settings.inRedis {
		opened, err := redisstore.Open(f.ctx, p.client)
		if err != nil {
			return nil, fmt.Errorf("open the store of %s: %w", name, err)
		}
		p.store.Store = opened
	}
	var err error
	if p.Limiter, err = reservations.New(p.store, f.settings.limits, reservations.Config{}); err != nil {
		return nil, fmt.Errorf("limiter of %s: %w", name, err)
	}
	f.faults.cover(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes = append(f.processes, p)
	return p, nil
}

// dead reports whether the process was killed.
func (p *process) dead() bool { return isClosed(p.died) }

// seedOf returns the seed of one source of random numbers.
func (f *Fleet) seedOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, f.settings.seed, name) // never fails
	return h.Sum64()
}

func (f *Fleet) logger(name string) *slog.Logger {
	if f.settings.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(f.settings.log).With(slog.String("process", name))
}

// Worker is one worker of a fleet.
type Worker struct {
	// Worker is the worker that the test set up.
	*worker.Worker
	*process

	number int
	setup  func(*worker.Worker)
	config worker.Config
	// halted is closed when the worker begins to stop, stopped when it has; stop stops it, once.
	halted, stopped chan struct{}
	stop            func()
}

// launch makes and starts a worker in a new process.
func (f *Fleet) launch(number int, setup func(*worker.Worker), config worker.Config) *Worker {
	f.t.Helper()
	name := fmt.Sprintf("worker %d", number)
	p, err := f.newProcess(name)
	if err != nil {
		f.fatalf("%v", err)
	}
	w := &Worker{process: p, number: number, setup: setup, config: config}
	w.halted, w.stopped = make(chan struct{}), make(chan struct{})
	w.stop = sync.OnceFunc(func() {
		close(w.halted)
		go w.end()
	})
	if config.Logger == nil {
		config.Logger = f.logger(name)
	}
	failed := func(e worker.Event) { f.failures.add(causeOf(e), name) }
	traced := func(e worker.Event) { f.trace.event(name, e) }
	config.Events = append([]func(worker.Event){traced, f.tasks.event, failed}, config.Events...)
	for i, each := range config.Events {
		config.Events[i] = func(e worker.Event) {
			if !p.dead() {
				each(e)
			}
		}
	}
	if w.Worker, err = worker.New(p.client, p.Limiter, config); err != nil {
		f.fatalf("%s: %v", name, err)
	}
	f.setting = p
	setup(w.Worker)
	f.setting = nil
	if err = w.start(); err != nil {
		f.fatalf("start %s: %v", name, err)
	}
	f.launched = append(f.launched, w)
	return w
}

// start starts the worker. While a fault keeps it from its start, start returns and the worker tries again.
func (w *Worker) start() error {
	began := time.Now()
	err := w.Start(w.fleet.ctx)
	if err == nil || !w.fleet.faults.covered(w.process, began) {
		return err
	}
	w.fleet.background.Go(func() {
		if !sleepUntil(time.Now().Add(startAgain), w.halted) || w.fleet.closing() {
			return
		}
		if err := w.start(); err != nil && !w.stopping() {
			w.fleet.errorf("start %s: %v", w.name, err)
		}
	})
	return nil
}

// startAgain is how soon a worker starts again whose start has failed.
const startAgain = time.Second

// stopping reports whether the worker was killed or stopped.
func (w *Worker) stopping() bool { return isClosed(w.halted) }

// end stops the worker.
func (w *Worker) end() {
	defer close(w.stopped)
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := w.Worker.Stop(ctx); err != nil && !w.dead() {
		w.fleet.errorf("stop %s: %v", w.name, err)
	}
	_ = w.client.Close() // its worker has ended
}

// Kill ends the worker as kill -9 does: from now on nothing of it reaches Redis, the store and the providers, and none
// of its Config.Events is called. asynq delivers its running tasks again after their leases, of 30 to 120 seconds.
func (w *Worker) Kill() {
	w.kill()
	w.fleet.faults.changed()
	w.stop()
}

// Stop stops the worker as SIGTERM does, in the background.
func (w *Worker) Stop() { w.stop() }

// CutOff makes the network of the worker hang for a time: it goes on running, and reaches neither Redis nor the store.
// If the worker is restarted meanwhile, the new one is cut off as well.
func (w *Worker) CutOff(d time.Duration) {
	w.fleet.t.Helper()
	w.fleet.check("Worker.CutOff", fromZero("d", d))
	w.fleet.faults.begin(fault{worker: w.name, redis: true, store: true, state: network.Hang}, d)
}

// Slow makes each message between the worker and Redis, and between it and the store, take longer for a time. It is
// longer for a worker that is started in its place as well.
func (w *Worker) Slow(more, d time.Duration) {
	w.fleet.t.Helper()
	w.fleet.check("Worker.Slow", fromZero("more", more), fromZero("d", d))
	w.fleet.faults.begin(fault{worker: w.name, redis: true, store: true, more: more}, d)
}
