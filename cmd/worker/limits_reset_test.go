package main

import (
	"context"
	"testing"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/reservations"
)

func TestLimitsReset(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	getenv := func(name string) string { return b.env[name] }
	buckets, err := connect.Mongo(t.Context(), getenv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = buckets.Close(context.WithoutCancel(t.Context())) })
	c, err := config.Load(b.file)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := reservations.New(buckets, c.Limits, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "acme"} {
		if _, err := limiter.Begin(t.Context(), reservations.Charge{Limit: "openai", Key: key, Tokens: reservations.Tokens{"requests": 400}}, reservations.Place{}); err != nil {
			t.Fatal(err)
		}
	}
	b.run(cli.ExitOK, []string{"openai:acme is full again"}, "reset", "openai:acme")
	for key, want := range map[string]bool{"": true, "acme": false} {
		if _, kept, err := buckets.Bucket(t.Context(), "openai", key); err != nil || kept != want {
			t.Errorf("bucket of %q kept: %v, %v", key, kept, err)
		}
	}
	b.run(cli.ExitUsage, []string{`"opanai" is not configured; there are ["openai"]`}, "reset", "opanai")
	b.run(cli.ExitUsage, []string{`"openai#1" is one shard`, `name "openai"`}, "reset", "openai#1")
}
