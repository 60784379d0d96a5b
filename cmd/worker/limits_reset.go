package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/reservations"
)

func limitsResetCommand(env cli.Environment) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "reset LIMIT[:KEY]",
		Short: "Make a bucket full again, and end its block and its debt",
		Long: `Reset forgets what was taken from a bucket: its level, its plan, its debt and a block. A task that comes next starts at once; tasks that
wait keep the times they were given.

The provider does not forget: it may refuse what starts now, as it may have counted all that was taken before. Reset a bucket when the
provider has done so too, or after a limit of a day was lowered by mistake.`,
		Example: `  worker limits reset openai
  worker limits reset openai:acme`,
		Args: cli.Named("LIMIT or LIMIT:KEY"),
	}
	c.Flags().StringVar(&file, "config", config.FileDefault, "the `file` with the limits")
	c.RunE = func(c *cobra.Command, args []string) error { return resetLimit(c.Context(), env, file, args[0]) }
	return c
}

func resetLimit(ctx context.Context, env cli.Environment, file, name string) error {
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	bucket := reservations.ParseBucket(name)
	checker, err := reservations.New(nil, c.Limits, reservations.Config{})
	if err != nil {
		return err
	}
	if _, err = checker.Limit(bucket.Limit); err != nil {
		return err
	}
	if bucket.Shard != 0 {
		return &cli.UsageError{Err: fmt.Errorf("%q is one shard; all shards of a bucket are reset together: name %q", name, reservations.BucketName(bucket.Limit, bucket.Key))}
	}
	buckets, err := connect.Mongo(ctx, env.Getenv)
	if err != nil {
		return err
	}
	defer func() { _ = buckets.Close(context.WithoutCancel(ctx)) }()
	limiter, err := reservations.New(buckets, c.Limits, reservations.Config{})
	if err != nil {
		return err
	}
	if err = limiter.Reset(ctx, bucket.Limit, bucket.Key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Out, "%s is full again\n", bucket.Bucket())
	return err
}
