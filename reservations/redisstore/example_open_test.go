package redisstore_test

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// Buckets live in the Redis that asynq uses.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	store, err := redisstore.Open(ctx, client)
	if err != nil {
		slog.Error("start", slog.Any("error", err))
		return
	}
	limiter, err := reservations.New(store, []reservations.Limit{{
		Name: "openai", Meters: []reservations.Meter{reservations.PerMinute("requests", 500)},
	}}, reservations.Config{})
	if err != nil {
		slog.Error("start", slog.Any("error", err))
		return
	}
	charge := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1}}
	outcome, err := limiter.Start(ctx, charge)
	if err != nil {
		slog.Error("start a task", slog.Any("error", err))
		return
	}
	slog.Info("start a task", slog.String("state", string(outcome.State)), slog.Duration("hold", outcome.Hold))
}
