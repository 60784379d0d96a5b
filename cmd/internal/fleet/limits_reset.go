package fleet

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

func limitsResetCommand(env cli.Environment) *cobra.Command {
	return bucketCommand(env, reset, &cobra.Command{
		Use:   "reset LIMIT[:KEY]",
		Short: "Make a bucket full again, and end its block and its debt",
		Long: `Reset forgets what was taken from a bucket: its level, its promises, its debt and a block. Waiting tasks
start at once, in their order, as far as a full bucket goes.

The provider does not forget: it may refuse what starts now, as it may have counted all that was taken
before. Reset a bucket when the provider has done so too, after a limit of a day was lowered by mistake, or
when the document of the bucket is corrupt. To end only a block, use "limits unblock".`,
		Example: `  headway limits reset openai
  headway limits reset openai:acme`,
	})
}

func reset(ctx context.Context, r state.Reader, at reservations.BucketName) (string, error) {
	return at.String() + " is full again", r.Reset(ctx, at)
}

func limitsUnblockCommand(env cli.Environment) *cobra.Command {
	return bucketCommand(env, unblock, &cobra.Command{
		Use:   "unblock LIMIT[:KEY]",
		Short: "End the block of a bucket: waiting tasks start at once",
		Long: `Unblock ends the time for which nothing starts in a bucket because a provider refused a call and named a
time (Retry-After). Waiting tasks start at once, in their order, at the rate of the limit.

It also forgets what the provider refused before, also of a quota or a key, and gives back what headers of
the provider took from the bucket (x-ratelimit-remaining-requests: 0).

A bucket is empty when it is blocked, so no burst follows. If the provider still refuses, the next call
blocks the bucket again. How long one refusal blocks at most is max_block in headway.yaml.`,
		Example: `  headway limits unblock openai
  headway limits unblock openai:acme`,
	})
}

func unblock(ctx context.Context, r state.Reader, at reservations.BucketName) (string, error) {
	left, err := r.Unblock(ctx, at)
	if left == 0 {
		return at.String() + " was not blocked", err
	}
	return fmt.Sprintf("%s is not blocked any more: %s were left", at, cli.Seconds(left.Seconds())), err
}

// bucketCommand is a command that changes one bucket.
func bucketCommand(env cli.Environment, change bucketChange, c *cobra.Command) *cobra.Command {
	var file string
	c.Args = cli.Named("LIMIT or LIMIT:KEY")
	configFlag(c, &file)
	c.RunE = func(c *cobra.Command, args []string) error {
		return changeBucket(c.Context(), env, file, args[0], change)
	}
	return c
}

// bucketChange changes a bucket, and returns the text for people.
type bucketChange func(context.Context, state.Reader, reservations.BucketName) (string, error)

// changeBucket changes one bucket, and lets its waiting tasks start by what it is then.
func changeBucket(ctx context.Context, env cli.Environment, file, name string, change bucketChange) error {
	at, bad := reservations.ParseBucket(name)
	c, err := session.Settings(ctx, env, file, func(c config.Config) bool {
		_, unknown := inside.Of(c.Checker()).Limits().For(at.Limit, "")
		return unknown == nil
	})
	if err != nil {
		return err
	}
	if _, err = inside.Of(c.Checker()).Limits().For(at.Limit, ""); err != nil {
		return err
	}
	if bad != nil {
		return &cli.UsageError{Err: bad}
	}
	if at.Shard != 0 {
		at.Shard = 0
		return cli.Usage("%q is one shard; all shards of a bucket are changed together: name %q", name, at)
	}
	s, err := session.Open(ctx, env, c, session.Needs{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	text, err := change(ctx, s.Reader(), at)
	if err != nil {
		return err
	}
	if err = s.Scheduler.Stop(ctx); err != nil { // sends what the dispatcher plans with
		return fmt.Errorf("%s, but waiting tasks could not be moved forward: %w", cli.Printable(text), err)
	}
	_, err = fmt.Fprintln(env.Out, cli.Printable(text))
	return err
}
