package mongostore_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// A main program chooses the database and hands the store to a Limiter.
func Example() {
	ctx := context.Background()
	client, err := mongostore.Connect(ctx, os.Getenv("MONGODB_URI"))
	if err != nil {
		slog.Error("start", slog.Any("error", err))
		return
	}
	defer func() { _ = client.Disconnect(ctx) }()
	store := mongostore.New(client.Database("headway"), mongostore.Options{})
	if err = store.EnsureIndexes(ctx); err != nil {
		slog.Error("start", slog.Any("error", err))
		return
	}
	limiter, err := reservations.New(store, []reservations.Limit{{
		Name:   "openai",
		Meters: []reservations.Meter{reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000)},
	}}, reservations.Config{})
	if err != nil {
		slog.Error("start", slog.Any("error", err))
		return
	}
	charge := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 900}}
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
