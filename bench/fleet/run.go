// Package fleet runs a contestant on a work. It starts services and worker processes, observes them, and returns the
// figures.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/headway-go/headway/internal/calls/pause"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/provider"
	"github.com/headway-go/headway/bench/works"
)

const (
	// look is how often the runner checks for the end of a run.
	look = 10 * time.Millisecond
	// settle is how long the runner waits for workers to become idle: after they are ready, and after the last start,
	// for settlements and probes.
	settle = 500 * time.Millisecond
	// sample is how long the runner measures idle workers before the tasks are enqueued.
	sample = time.Second
	// readyWithin is how long workers may take to start.
	readyWithin = 30 * time.Second
)

// Runner runs one contestant at a time.
type Runner struct {
	// MongoURI is the server. Each run has a database of its own there, which is dropped at its end.
	MongoURI string
	// Stderr gets the output of workers.
	Stderr io.Writer
	// Profile is a folder for CPU profiles of the worker processes. Empty means no profiles.
	Profile string
}

// run is one run.
type run struct {
	work       works.Work
	contestant contest.Contestant
	env        contest.Env
	stderr     io.Writer

	redis    *redisServer
	provider *provider.Provider
	workers  tally // of the worker processes
	sender   tally // of the producer
	fleet    []*process
	gone     Usage // of the ended processes

	began, downAt, upAt, ended time.Time
	enqueueTook                time.Duration
	cut                        bool
	counts                     countsAt
	cpuAtStart, cpuToEnqueue   time.Duration
	first                      mark // after the first starts, if the work has First
}

// countsAt are the counters of Redis at different points of a run.
type countsAt struct{ start, enqueued, idle, end redisCounts }

// Run does one run and returns its figures.
func (r *Runner) Run(ctx context.Context, c contest.Contestant, w works.Work) (_ Measured, err error) {
	one := &run{work: w, contestant: c, stderr: r.Stderr}
	if one.redis, err = startRedis(ctx); err != nil {
		return Measured{}, err
	}
	defer one.redis.stop()
	if one.provider, err = provider.Start(ctx, w.Answer); err != nil {
		return Measured{}, err
	}
	defer func() { err = errors.Join(err, one.provider.Close()) }()
	one.env = environment(c, w, r.MongoURI, one.redis.url)
	one.env.Profile = r.Profile
	if !w.Local {
		one.env.ProviderURL = one.provider.URL()
	}
	defer func() { err = errors.Join(err, drop(ctx, r.MongoURI, one.env.Database)) }()
	if err = one.whole(ctx); err != nil {
		return Measured{}, fmt.Errorf("%s on %s: %w", c.Name(), w.Name, err)
	}
	return one.measured(), nil
}

func environment(c contest.Contestant, w works.Work, mongoURI, redisURL string) contest.Env {
	env := contest.Env{
		Contestant: c.Name(), Work: w.Name, RedisURL: redisURL, MongoURI: mongoURI,
		Database: "headway-bench-" + uuid.NewString(),
		Limits:   w.LimitsFor(c.Name()), Slots: w.Slots, Workers: w.Workers,
	}
	if env.Slots == 0 {
		env.Slots = 10
	}
	if env.Workers == 0 {
		env.Workers = 2
	}
	return env
}

// whole is the run from the producer's start to the workers' end.
func (r *run) whole(ctx context.Context) (err error) {
	reader, writer := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() { _ = r.sender.read(reader) })
	probe := contest.NewProbe(r.env, writer)
	defer func() {
		probe.Close()
		_ = writer.Close()
		reading.Wait()
	}()
	producer, err := r.contestant.Producer(ctx, r.env, probe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	defer func() { err = errors.Join(err, r.stopAll()) }()
	if r.counts.start, err = r.redis.counts(ctx); err != nil {
		return err
	}
	switch {
	case r.work.EnqueueOnly:
		err = r.enqueueAll(ctx, producer)
	case r.work.Backlog:
		err = r.fromBacklog(ctx, producer)
	default:
		err = r.fromIdle(ctx, producer)
	}
	if err != nil {
		return err
	}
	return r.finish(ctx)
}

// fromBacklog enqueues all tasks, then starts the workers.
func (r *run) fromBacklog(ctx context.Context, producer contest.Producer) (err error) {
	if err = r.enqueueAll(ctx, producer); err != nil {
		return err
	}
	r.counts.idle = r.counts.enqueued
	r.begin()
	if err = r.startAll(ctx); err != nil {
		return err
	}
	r.cpuAtStart = r.cpuNow()
	return r.await(ctx, nil)
}

// enqueueAll enqueues all tasks, and measures that. No worker runs meanwhile, so the CPU time of this process is the
// producer's.
func (r *run) enqueueAll(ctx context.Context, producer contest.Producer) (err error) {
	list, cpu, began := r.tasks(), ownCPU(), time.Now()
	if err = producer.Enqueue(ctx, list); err != nil {
		return err
	}
	r.enqueueTook, r.cpuToEnqueue = time.Since(began), ownCPU()-cpu
	r.counts.enqueued, err = r.redis.counts(ctx)
	return err
}

// fromIdle starts the workers, measures them while they are idle, and then sends the tasks.
func (r *run) fromIdle(ctx context.Context, producer contest.Producer) (err error) {
	if err = r.startAll(ctx); err != nil {
		return err
	}
	if err = pause.For(ctx, settle); err != nil {
		return err
	}
	r.cpuAtStart = r.cpuNow()
	if r.counts.start, err = r.redis.counts(ctx); err != nil {
		return err
	}
	if err = pause.For(ctx, max(sample, r.work.Idle)); err != nil {
		return err
	}
	if r.counts.idle, err = r.redis.counts(ctx); err != nil {
		return err
	}
	r.counts.enqueued = r.counts.idle
	r.begin()
	if r.work.Idle > 0 {
		return nil
	}
	sending, stop := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() {
		defer close(sent)
		sent <- r.send(sending, producer)
	}()
	err = r.await(ctx, sent)
	stop()
	for range sent { // the run may be cut off before the sender has ended
	}
	return err
}

// tasks returns the tasks of the work, without keys if the contestant has no limits.
func (r *run) tasks() []contest.Task {
	if len(r.env.Limits) > 0 || len(r.work.Limits) == 0 {
		return r.work.Tasks
	}
	bare := make([]contest.Task, len(r.work.Tasks))
	for i, t := range r.work.Tasks {
		bare[i] = contest.Task{Seq: t.Seq, Reserved: t.Reserved, Used: t.Used}
	}
	return bare
}

// send enqueues each task at its time. It enqueues overdue tasks together.
func (r *run) send(ctx context.Context, producer contest.Producer) error {
	began := time.Now()
	defer func() { r.enqueueTook = time.Since(began) }()
	list := r.tasks()
	if r.work.At == nil {
		return producer.Enqueue(ctx, list)
	}
	for i := 0; i < len(list); {
		if err := pause.For(ctx, r.work.At[i]-time.Since(began)); err != nil {
			return err
		}
		due := i + 1
		for due < len(list) && r.work.At[due] <= time.Since(began) {
			due++
		}
		if err := producer.Enqueue(ctx, list[i:due]); err != nil {
			return err
		}
		i = due
	}
	return nil
}

func (r *run) begin() {
	r.began = time.Now()
	r.provider.Reset(r.began)
}

// drop removes the database of a run.
func drop(ctx context.Context, uri, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return fmt.Errorf("bench: drop database: %w", err)
	}
	return errors.Join(client.Database(name).Drop(ctx), client.Disconnect(ctx))
}
