package enqueue

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// livePatience bounds how long a dry run waits for the fleet.
const livePatience = 2 * time.Second

// goLive has a dry run go by the limits of live workers first, with the rates that are set. It returns false if neither
// REDIS_URL nor `headway dev` names a fleet, or if the fleet does not answer. That is a warning.
func (j *batchJob) goLive(ctx context.Context) (bool, error) {
	if j.env.Getenv("REDIS_URL") == "" {
		if _, lives := connect.FindDev(ctx, j.env.Getenv); !lives {
			return false, nil
		}
	}
	c, err := liveLimits(ctx, j.env, j.from)
	if err != nil {
		cli.Warn(j.env, "the fleet does not answer, so that the limits of %s count: %v", j.file, err)
		return false, nil
	}
	j.from, err = j.source(c, j.model)
	return err == nil, err
}

// liveLimits are the settings of a source with the limits that the fleet goes by. It only reads.
func liveLimits(ctx context.Context, env cli.Environment, from *source) (config.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	c := from.config
	client, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return c, err
	}
	defer func() { _ = client.Close() }()
	members, err := register.New(client).Members(ctx)
	if err != nil {
		return c, err
	}
	overrides, err := setRates(ctx, env, c.Buckets, client)
	if err != nil && overrides == nil {
		return c, err
	}
	c.Limits = slices.Clone(register.InForce(members, c.Limits))
	limiter, err := reservations.New(reservations.NoStore(), c.Limits, reservations.Config{})
	if err != nil {
		return c, err
	}
	_ = inside.Of(limiter).SetOverrides(overrides) // `headway limits list` shows the ones that can't be in force
	for _, b := range from.buckets {
		limit, err := inside.Of(limiter).Limits().For(b.limit.Name, b.key)
		if err != nil {
			return c, err
		}
		i := slices.IndexFunc(c.Limits, func(l reservations.Limit) bool { return l.Name == limit.Name })
		c.Limits[i] = limit
	}
	return c, nil
}

// setRates are the rates that people have set, where the buckets are kept.
func setRates(
	ctx context.Context, env cli.Environment, kept string, client redis.UniversalClient,
) ([]reservations.Override, error) {
	if connect.Kept(env.Getenv, kept) == config.BucketsRedis {
		return redisstore.New(client).Overrides(ctx)
	}
	buckets, err := connect.Mongo(ctx, env.Getenv, io.Discard)
	if err != nil {
		return nil, err
	}
	defer func() { _ = buckets.Close(context.WithoutCancel(ctx)) }()
	return buckets.Overrides(ctx)
}
