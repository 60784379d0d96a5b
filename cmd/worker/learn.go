package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/headway-go/headway/estimates"
	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
)

// learn lets the worker learn from its answers and, where there is MongoDB, share that with the fleet, until stop, which waits.
func learn(ctx context.Context, c config.Estimates, buckets *connect.Buckets, log *slog.Logger) (learning *chat.Learning, stop func(), err error) {
	learner, err := estimates.New(estimates.Config{Quantile: c.Quantile})
	if err != nil {
		return nil, nil, &cli.UsageError{Err: err}
	}
	if !buckets.InMongo() {
		return &chat.Learning{Learner: learner, Limits: c.Learn}, func() {}, nil
	}
	keeper, err := buckets.Estimates(ctx, learner, log)
	if err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it learns from what ends after the signal too
	var group sync.WaitGroup
	group.Go(func() { keeper.Run(running) })
	return &chat.Learning{Learner: learner, Limits: c.Learn}, func() {
		cancel()
		group.Wait()
	}, nil
}
