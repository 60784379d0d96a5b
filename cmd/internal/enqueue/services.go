package enqueue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/requests"
	"github.com/headway-go/headway/internal/tracing"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// closePatience bounds the end of a command.
const closePatience = 5 * time.Second

// services are what a command is connected to.
type services struct {
	queue     redis.UniversalClient
	limiter   *reservations.Limiter
	scheduler *scheduler.Scheduler
	batches   *batches.Store // nil where only tasks are enqueued
	buckets   *connect.Buckets

	closers []func(context.Context) error
}

func (s *services) finder() requests.Finder { return requests.Finder{Store: s.batches, Queue: s.queue} }

// close ends all connections, the last first.
func (s *services) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	for _, c := range slices.Backward(s.closers) {
		_ = c(ctx) // nothing is left to do over it
	}
}

// open connects to the queue, and to the buckets where tokens are to be reserved.
func (t *target) open(ctx context.Context, env cli.Environment, limits []reservations.Limit) (*services, error) {
	t.warnOfQueue(env)
	s := &services{}
	var buckets *connect.Buckets
	err := s.openQueue(ctx, env)
	if err == nil && t.reserve {
		buckets, err = s.openBuckets(ctx, t, env)
	}
	return s.finish(ctx, env, limits, buckets, err)
}

// openBatches connects to the queue, the buckets and the batches.
func (t *target) openBatches(ctx context.Context, env cli.Environment, limits []reservations.Limit) (*services, error) {
	if env.Getenv("MONGODB_URI") == "" {
		return nil, connect.ErrNoMongo()
	}
	s := &services{}
	var buckets *connect.Buckets
	err := s.openQueue(ctx, env)
	if err == nil {
		buckets, err = s.openBuckets(ctx, t, env)
	}
	if err == nil {
		s.buckets = buckets
		s.batches, err = buckets.Batches(ctx)
	}
	return s.finish(ctx, env, limits, buckets, err)
}

func (t *target) warnOfQueue(env cli.Environment) {
	if _, served := t.queues[t.queue]; !served {
		cli.Warn(env, "%s has no queue %q: only a worker with a file that has it takes from there", t.file, t.queue)
	}
}

func (s *services) openQueue(ctx context.Context, env cli.Environment) error {
	client, err := openRedis(ctx, env)
	if err != nil {
		return err
	}
	s.queue = client
	s.closers = append(s.closers, func(context.Context) error { return client.Close() })
	return nil
}

// openRedis connects to the queue, and says so where that is the queue of `headway dev`: nothing in it lasts.
func openRedis(ctx context.Context, env cli.Environment) (redis.UniversalClient, error) {
	if env.Getenv("REDIS_URL") == "" {
		if dev, lives := connect.FindDev(ctx, env.Getenv); lives {
			fmt.Fprintf(env.Err, "headway: to the fleet of `headway dev`, whose page is at %s\n", dev.Page)
		}
	}
	return connect.Redis(ctx, env.Getenv)
}

func (s *services) openBuckets(ctx context.Context, t *target, env cli.Environment) (*connect.Buckets, error) {
	buckets, err := connect.Open(ctx, env.Getenv, t.buckets, s.queue, env.Err)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, buckets.Close)
	return buckets, nil
}

// finish makes the limiter and the scheduler of what was opened, or closes it all.
func (s *services) finish(
	ctx context.Context, env cli.Environment, limits []reservations.Limit, buckets *connect.Buckets,
	err error,
) (*services, error) {
	if err == nil {
		err = s.schedule(ctx, env, limits, buckets)
	}
	if err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

func (s *services) schedule(
	ctx context.Context, env cli.Environment, limits []reservations.Limit, buckets *connect.Buckets,
) error {
	limiter, err := reservations.New(nil, limits, reservations.Config{})
	if buckets != nil {
		limiter, err = buckets.Limiter(ctx, limits, func(err error) { cli.Warn(env, "%v", err) })
	}
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	stopTraces, err := tracing.Start(ctx, "headway-enqueue", env.Getenv, logger)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func(context.Context) error { stopTraces(); return nil })
	way, err := scheduler.New(s.queue, limiter, scheduler.Config{Logger: logger})
	if err != nil {
		return err
	}
	s.limiter, s.scheduler = limiter, way
	s.closers = append(s.closers, way.Stop) // sends what gave places back
	return nil
}
