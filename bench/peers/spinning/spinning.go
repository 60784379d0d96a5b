// Package spinning is a simple limit in an existing database: a token bucket in a MongoDB document. The handler tries
// to take its tokens every 100 ms until it succeeds.
package spinning

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
)

// every is how long a handler sleeps between two tries.
const every = 100 * time.Millisecond

type contestant struct{}

// New returns the contestant.
func New() contest.Contestant { return contestant{} }

// Name implements contest.Contestant.
func (contestant) Name() string { return "spinning-mongo" }

// About implements contest.Contestant.
func (contestant) About() string {
	return "asynq, the handler tries every " + every.String() +
		" to take from a token bucket in MongoDB (one findOneAndUpdate per try), " +
		"and gives unused tokens back"
}

// Producer implements contest.Contestant.
func (contestant) Producer(_ context.Context, env contest.Env, _ *contest.Probe) (contest.Producer, error) {
	return asynqqueue.NewProducer(env)
}

// Work implements contest.Contestant.
func (contestant) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	buckets, err := open(env, probe)
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, task contest.Task) error {
		limit, limited := env.Limit(task.Key)
		if limited {
			if err := spin(ctx, buckets, limit, task.Reserved); err != nil {
				return err
			}
		}
		used, err := probe.Call(ctx, task)
		if limited && err == nil && used < task.Reserved {
			err = buckets.giveBack(ctx, limit, task.Reserved-used)
		}
		return err
	}
	return errors.Join(asynqqueue.Serve(ctx, env, probe, asynq.Config{}, handle),
		buckets.close(context.WithoutCancel(ctx)))
}

// spin returns after it has taken n tokens.
func spin(ctx context.Context, b *buckets, limit contest.Limit, n int) error {
	for {
		taken, err := b.take(ctx, limit, n)
		if taken || err != nil {
			return err
		}
		if err = pause.For(ctx, every); err != nil {
			return err
		}
	}
}
