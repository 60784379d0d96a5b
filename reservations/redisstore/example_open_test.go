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
	grant, err := limiter.Wait(ctx, charge)
	if err != nil {
		slog.Error("start a call", slog.Any("error", err))
		return
	}
	slog.Info("the call may start", slog.Any("left", grant.Outcomes()[0].Remaining()))
	if err = grant.Settle(ctx, nil); err != nil {
		slog.Error("settle a call", slog.Any("error", err))
	}
}
