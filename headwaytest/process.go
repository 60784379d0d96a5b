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
	p.wire = network.New(network.NewConditions(seed, 1, least, most), f.server.Serve)
	p.client = connect(p.wire)
	p.store = &reach{Store: f.shared, Conditions: network.NewConditions(seed, 2, least, most)}
	if f.settings.inRedis {
		opened, err := redisstore.Open(f.ctx, p.client)
		if err != nil {
			return nil, fmt.Errorf("open the store of %s: %w", name, err)
		}
		p.store = &reach{Store: opened, Conditions: network.NewConditions(seed, 2, 0, 0)} // the wire delays its messages
	}
	var err error
	if p.Limiter, err = reservations.New(p.store, f.settings.limits, reservations.Config{}); err != nil {
		return nil, fmt.Errorf("limiter of %s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes = append(f.processes, p)
	return p, nil
}

// dead reports whether the process was killed.
func (p *process) dead() bool {
	select {
	case <-p.died:
		return true
	default:
		return false
	}
}

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
	// stopped is closed when the worker has stopped; stop stops it, once.
	stopped chan struct{}
	stop    func()
}

// launch makes and starts a worker in a new process.
func (f *Fleet) launch(number int, setup func(*worker.Worker), config worker.Config) *Worker {
	f.t.Helper()
	name := fmt.Sprintf("worker %d", number)
	p, err := f.newProcess(name)
	if err != nil {
		f.t.Fatalf("headwaytest: %v", err)
	}
	w := &Worker{process: p, number: number, setup: setup, config: config, stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { go w.end() })
	if config.Logger == nil {
		config.Logger = f.logger(name)
	}
	config.Events = append([]func(worker.Event){f.tasks.event}, config.Events...)
	for i, each := range config.Events {
		config.Events[i] = func(e worker.Event) {
			if !p.dead() {
				each(e)
			}
		}
	}
	if w.Worker, err = worker.New(p.client, p.Limiter, config); err != nil {
		f.t.Fatalf("headwaytest: %s: %v", name, err)
	}
	f.setting = p
	setup(w.Worker)
	f.setting = nil
	if err = w.Start(f.ctx); err != nil {
		f.t.Fatalf("headwaytest: start %s: %v", name, err)
	}
	f.launched = append(f.launched, w)
	return w
}

// end stops the worker.
func (w *Worker) end() {
	defer close(w.stopped)
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := w.Worker.Stop(ctx); err != nil && !w.dead() {
		w.fleet.t.Errorf("headwaytest: stop %s: %v", w.name, err)
	}
	_ = w.client.Close() // its worker has ended
}

// Kill ends the worker as kill -9 does: from now on nothing of it reaches Redis, the store and the providers, and none
// of its Config.Events is called. asynq delivers its running tasks again after their leases, of 30 to 120 seconds.
func (w *Worker) Kill() {
	w.kill()
	w.wire.Set(network.Refuse)
	w.store.Set(network.Refuse)
	w.stop()
}

// Stop stops the worker as SIGTERM does, in the background.
func (w *Worker) Stop() { w.stop() }

// CutOff makes the network of the worker hang for a time: it goes on running, and reaches neither Redis nor the store.
func (w *Worker) CutOff(d time.Duration) {
	w.hang(network.Hang)
	time.AfterFunc(d, func() { w.hang(network.Up) })
}

// Slow makes each message between the worker and Redis, and between it and the store, take longer for a time.
func (w *Worker) Slow(more, d time.Duration) {
	w.slow(more)
	time.AfterFunc(d, func() { w.slow(0) })
}

func (w *Worker) slow(more time.Duration) {
	w.wire.Slow(more)
	w.store.Slow(more)
}

func (w *Worker) hang(s network.State) {
	if !w.dead() {
		w.wire.Set(s)
		w.store.Set(s)
	}
}
