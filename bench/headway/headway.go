// Package headway is Headway as a contestant.
package headway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/tasks"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/bench/contest"
)

// meter is the only meter of each limit.
const meter = "tokens"

// Task is the task of the benchmarks for Headway.
type Task contest.Task

// TaskType implements tasks.Args.
func (Task) TaskType() string { return "bench" }

// Charges implements tasks.Charger.
func (t Task) Charges() []reservations.Charge {
	if t.Key == "" {
		return nil
	}
	return []reservations.Charge{{Limit: t.Key, Tokens: reservations.Tokens{meter: float64(t.Reserved)}}}
}

// TaskOptions implements tasks.Optioner.
func (Task) TaskOptions() tasks.Options { return tasks.Options{Queue: contest.QueueName} }

// connections are the connections of a Headway process.
type connections struct {
	redis   *redis.Client
	mongo   *mongo.Client
	buckets *mongostore.Store
	limiter *reservations.Limiter
}

// connect opens connections, with a MongoDB client whose commands the probe counts.
func connect(ctx context.Context, env contest.Env, probe *contest.Probe) (*connections, error) {
	address, err := redis.ParseURL(env.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("headway: address of Redis: %w", err)
	}
	database, err := mongostore.Connect(ctx, env.MongoURI, probe.CountCommands)
	if err != nil {
		return nil, fmt.Errorf("headway: %w", err)
	}
	c := &connections{
		redis: redis.NewClient(address), mongo: database,
		buckets: mongostore.New(database.Database(env.Database), mongostore.Options{}),
	}
	if c.limiter, err = reservations.New(c.buckets, limits(env), reservations.Config{}); err != nil {
		return nil, errors.Join(fmt.Errorf("headway: limits: %w", err), c.close(ctx))
	}
	return c, nil
}

func (c *connections) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(c.mongo.Disconnect(ctx), c.redis.Close())
}

// limits returns the limits of env. If there is none, it returns one that no task names, because a Headway without
// limits is unrealistic.
func limits(env contest.Env) []reservations.Limit {
	list := make([]reservations.Limit, 0, len(env.Limits))
	for _, l := range env.Limits {
		list = append(list, limit(l))
	}
	if len(list) == 0 {
		list = append(list, limit(contest.Limit{Key: "unused", Rate: 1, Burst: 1}))
	}
	return list
}

func limit(l contest.Limit) reservations.Limit {
	m := reservations.PerSecond(meter, l.Rate)
	m.Capacity = l.Burst
	return reservations.Limit{Name: l.Key, Meters: []reservations.Meter{m}}
}

// logger logs errors and warnings to stderr.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
